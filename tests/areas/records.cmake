unity_test(test_records SOURCES property/records_of_searches_test.cpp property/records_of_simulations_test.cpp support/records.cpp
  DEPENDS unity_search unity_models unity_simulator unity_report)
