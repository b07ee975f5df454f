# What cuDNN itself says to our graphs, for a device described to it: needs the library, but no device.
if(UNITY_CUDA_FOUND AND NOT UNITY_SANITIZE)  # whose leak check reports the library itself
  unity_test(test_cudnn SOURCES unit/cudnn_graphs_test.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/library/attention_graph.cpp ${CMAKE_SOURCE_DIR}/runtime/cuda/library/conv_graph.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/library/conv_shapes.cpp ${CMAKE_SOURCE_DIR}/runtime/cuda/library/cudnn_graph.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/library/norm_graph.cpp ${CMAKE_SOURCE_DIR}/runtime/cuda/library/norm_shapes.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/library/pool_graph.cpp
    DEPENDS unity_ops ${UNITY_CUDNN_LIBRARY} CUDA::cublasLt)
  target_include_directories(test_cudnn SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${UNITY_CUDNN_INCLUDE})
endif()
