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
unity_test(test_cuda SOURCES ${CUDA_TESTS} ${CUDA_SHAPES} ${CMAKE_SOURCE_DIR}/runtime/cuda/share_gpus.cpp
  support/ops_sharded.cpp
  DEPENDS unity_cuda_emulated unity_cpu unity_plan)
# The backend itself, on CUDA and NCCL played on the host: several GPUs, several processes and their failures.
if(UNITY_CUDA_FOUND)
  set(CUDA_BACKEND backend prepare collective resources devices share_gpus)
  list(TRANSFORM CUDA_BACKEND REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/runtime/cuda/\\1.cpp")
  add_library(fake_cuda MODULE support/fake_cuda.cpp ${CUDA_BACKEND} ${CMAKE_SOURCE_DIR}/runtime/comm/processes.cpp
    ${CMAKE_SOURCE_DIR}/runtime/held_types.cpp ${CMAKE_SOURCE_DIR}/runtime/cuda/library/cublas_shapes.cpp)
  set_target_properties(fake_cuda PROPERTIES PREFIX "" OUTPUT_NAME libunity_cuda
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_cuda)
  target_compile_options(fake_cuda PRIVATE ${UNITY_WARNINGS})
  target_include_directories(fake_cuda PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(fake_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${UNITY_NCCL_INCLUDE})
  target_link_libraries(fake_cuda PRIVATE unity_cuda_emulated unity_plan)
  target_link_options(fake_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
  unity_test(test_fake_cuda SOURCES unit/fake_cuda_test.cpp support/fake_processes.cpp support/training_run.cpp
    DEPENDS unity_runtime unity_search unity_models ${CMAKE_DL_LIBS})
  add_dependencies(test_fake_cuda fake_cuda)
  foreach(gpus 1 4)
    add_test(NAME "test_device on ${gpus} fake GPUs" COMMAND test_device "~every kind of model*" "~operators on the GPU*"
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties("test_device on ${gpus} fake GPUs" PROPERTIES
      ENVIRONMENT "UNITY_PLUGINS=${CMAKE_BINARY_DIR}/fake_cuda;UNITY_FAKE_GPUS=${gpus}")
  endforeach()
endif()
