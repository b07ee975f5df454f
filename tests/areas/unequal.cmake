unity_test(test_unequal SOURCES unit/unequal_machines_test.cpp property/unequal_shares_test.cpp support/training_run.cpp
  DEPENDS unity_search unity_models unity_simulator unity_runtime)
add_dependencies(test_unequal unity)
