# What cuDNN itself says to our graphs, for a device described to it: needs the library, but no device.
if(UNITY_CUDA_FOUND AND NOT UNITY_SANITIZE)  # whose leak check reports the library itself
  unity_test(test_cudnn SOURCES unit/cudnn_graphs_test.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/library/attention_graph.cpp ${CMAKE_SOURCE_DIR}/runtime/cuda/library/conv_graph.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/library/conv_shapes.cpp ${CMAKE_SOURCE_DIR}/runtime/cuda/library/cudnn_graph.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/library/norm_graph.cpp ${CMAKE_SOURCE_DIR}/runtime/cuda/library/norm_shapes.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/library/pool_graph.cpp
    DEPENDS unity_ops ${UNITY_CUDNN_LIBRARY} CUDA::cublasLt)
  # Once more with a driver that lets cuDNN compile.
  add_library(fake_driver SHARED support/fake_driver.cpp)
  set_target_properties(fake_driver PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so.1 NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_driver)
  target_compile_options(fake_driver PRIVATE ${UNITY_WARNINGS})
  add_dependencies(test_cudnn fake_driver)
  add_test(NAME "test_cudnn, plans compiled" COMMAND test_cudnn "cuDNN knows*,cuDNN has deterministic engines for the norms*")
  set_tests_properties("test_cudnn, plans compiled" PROPERTIES ENVIRONMENT "UNITY_FAKE_DRIVER=1"
    ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${CMAKE_BINARY_DIR}/fake_driver")
  target_include_directories(test_cudnn SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${UNITY_CUDNN_INCLUDE})
endif()
