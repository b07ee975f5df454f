unity_test(test_base SOURCES unit/base_units_test.cpp DEPENDS unity_base)
