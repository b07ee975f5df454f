# What needs a GPU; skipped, with the reason, where there is none. On a machine with a GPU: scripts/gpu_check.
file(GLOB DEVICE_TESTS CONFIGURE_DEPENDS device/*.cpp)
add_executable(test_device ${DEVICE_TESTS} support/ops_sharded.cpp support/training_run.cpp)
target_include_directories(test_device PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(test_device PRIVATE ${UNITY_WARNINGS})
target_link_libraries(test_device PRIVATE unity_runtime unity_search unity_models unity_test_main)
catch_discover_tests(test_device WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} TEST_PREFIX "test_device: "
  PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: no CUDA device")
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME "gpu_check: tests on this machine's GPU, or says that there is none"
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/gpu_check --build ${CMAKE_BINARY_DIR} --only training --minutes 2
      --out ${CMAKE_CURRENT_BINARY_DIR}/gpu-check)
  add_test(NAME "gpu_check: says what it could not check" COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/../device/gpu_check_test.py)
endif()
