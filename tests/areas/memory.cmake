unity_test(test_memory SOURCES property/memory_plan_test.cpp
  DEPENDS unity_search unity_models unity_simulator unity_runtime)
