unity_test(test_runtime SOURCES unit/runtime_collectives_test.cpp unit/runtime_dnn_test.cpp
  unit/runtime_executor_test.cpp unit/runtime_held_types_test.cpp unit/runtime_profile_test.cpp unit/runtime_ready_queue_test.cpp unit/runtime_schedule_test.cpp unit/runtime_training_test.cpp
  DEPENDS unity_runtime unity_search unity_models unity_simulator)
# A file for each format of data; they write images and archives through the same libraries.
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
file(GLOB DATA_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/runtime_data_*_test.cpp)
unity_test(test_data SOURCES ${DATA_TESTS} DEPENDS unity_runtime unity_search JPEG::JPEG PNG::PNG ZLIB::ZLIB)
unity_test(test_processes SOURCES unit/runtime_agreement_test.cpp unit/runtime_launch_test.cpp unit/runtime_processes_test.cpp support/fake_processes.cpp support/training_run.cpp
  DEPENDS unity_runtime unity_search unity_models)
