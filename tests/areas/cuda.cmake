# The kernels of the CUDA backend as plain loops: their arithmetic is tested on every machine.
file(GLOB CUDA_KERNELS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/cuda/kernels/*.cu)
foreach(part blocks optimizers row_updates)
  list(APPEND CUDA_KERNELS ${CMAKE_SOURCE_DIR}/runtime/cuda/${part}.cu)
endforeach()
set_source_files_properties(${CUDA_KERNELS} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
# Objects, not an archive: find_kernel names kernels weakly, which takes nothing out of archives.
add_library(unity_cuda_emulated OBJECT ${CUDA_KERNELS} ${CMAKE_SOURCE_DIR}/runtime/cuda/find_kernel.cpp)
# What CUDA's libraries are told about shapes needs none of them.
set(CUDA_SHAPES ${CMAKE_SOURCE_DIR}/runtime/cuda/library/cublas_shapes.cpp
  ${CMAKE_SOURCE_DIR}/runtime/cuda/library/conv_shapes.cpp)
target_compile_definitions(unity_cuda_emulated PUBLIC UNITY_CUDA_EMULATED)
target_compile_options(unity_cuda_emulated PRIVATE ${UNITY_WARNINGS})
target_link_libraries(unity_cuda_emulated PUBLIC unity_ops)
file(GLOB CUDA_TESTS CONFIGURE_DEPENDS unit/cuda_*_test.cpp)
unity_test(test_cuda SOURCES ${CUDA_TESTS} ${CUDA_SHAPES} support/ops_sharded.cpp
  DEPENDS unity_cuda_emulated unity_cpu unity_plan)
