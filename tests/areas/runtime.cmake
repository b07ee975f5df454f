unity_test(test_runtime SOURCES unit/runtime_collectives_test.cpp unit/runtime_dnn_test.cpp unit/runtime_executor_test.cpp
  unit/runtime_training_test.cpp
  DEPENDS unity_runtime unity_search)
