# The kernels of the CUDA backend as plain loops: their arithmetic is tested on every machine.
file(GLOB CUDA_KERNELS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/cuda/kernels/*.cu)
foreach(part blocks optimizers row_updates library/convert)
  list(APPEND CUDA_KERNELS ${CMAKE_SOURCE_DIR}/runtime/cuda/${part}.cu)
endforeach()
set_source_files_properties(${CUDA_KERNELS} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
# Objects, not an archive: find_kernel names kernels weakly, which takes nothing out of archives.
add_library(unity_cuda_emulated OBJECT ${CUDA_KERNELS} ${CMAKE_SOURCE_DIR}/runtime/cuda/find_kernel.cpp)
# What CUDA's libraries are told about shapes needs none of them.
set(CUDA_SHAPES ${CMAKE_SOURCE_DIR}/runtime/cuda/library/cublas_shapes.cpp
  ${CMAKE_SOURCE_DIR}/runtime/cuda/library/conv_shapes.cpp ${CMAKE_SOURCE_DIR}/runtime/cuda/library/norm_shapes.cpp)
target_compile_definitions(unity_cuda_emulated PUBLIC UNITY_CUDA_EMULATED)
target_compile_options(unity_cuda_emulated PRIVATE ${UNITY_WARNINGS})
target_link_libraries(unity_cuda_emulated PUBLIC unity_ops)
file(GLOB CUDA_TESTS CONFIGURE_DEPENDS unit/cuda_*_test.cpp)
unity_test(test_cuda SOURCES ${CUDA_TESTS} ${CUDA_SHAPES} ${CMAKE_SOURCE_DIR}/runtime/cuda/share_gpus.cpp
  support/ops_sharded.cpp
  DEPENDS unity_cuda_emulated unity_cpu unity_plan)
# The kernels once more, in groups of as many threads as on a GPU, first to last and last to first (which sanitizers take
# for jumps between stacks).
if(NOT UNITY_SANITIZE)
  add_executable(test_cuda_groups ${CUDA_TESTS} ${CUDA_SHAPES} ${CMAKE_SOURCE_DIR}/runtime/cuda/share_gpus.cpp
    unit/gpu_groups_test.cpp support/emulated_groups.cpp support/ops_sharded.cpp)
  target_include_directories(test_cuda_groups PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(test_cuda_groups PRIVATE ${UNITY_WARNINGS})
  target_link_libraries(test_cuda_groups PRIVATE unity_cuda_emulated unity_cpu unity_plan unity_test_main)
  foreach(order forward backward)
    add_test(NAME "kernels in groups of many threads, ${order}" COMMAND test_cuda_groups
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties("kernels in groups of many threads, ${order}" PROPERTIES
      ENVIRONMENT "UNITY_EMULATED_ORDER=${order}")
  endforeach()
endif()
# The backend itself, on CUDA and its libraries played on the host: several GPUs, several processes and their failures.
if(UNITY_CUDA_FOUND)
  set(CUDA_BACKEND backend prepare join image_layout collective collective_on_one_gpu end_nccl milestones resources
    devices share_gpus ways)
  list(TRANSFORM CUDA_BACKEND REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/runtime/cuda/\\1.cpp")
  file(GLOB CUDA_LIBRARY CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/cuda/library/*.cpp)
  add_library(fake_cuda MODULE support/fake_cuda.cpp support/fake_cublas.cpp support/fake_cudnn.cpp
    support/fake_attention.cpp support/fake_nccl.cpp ${CUDA_BACKEND}
    ${CUDA_LIBRARY} ${CMAKE_SOURCE_DIR}/runtime/comm/processes.cpp
    ${CMAKE_SOURCE_DIR}/runtime/held_types.cpp)
  set_target_properties(fake_cuda PROPERTIES PREFIX "" OUTPUT_NAME libunity_cuda
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_cuda)
  target_compile_options(fake_cuda PRIVATE ${UNITY_WARNINGS})
  target_include_directories(fake_cuda PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(fake_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${UNITY_CUDNN_INCLUDE}
    ${UNITY_NCCL_INCLUDE})
  target_link_libraries(fake_cuda PRIVATE unity_cuda_emulated unity_plan)
  target_link_options(fake_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
  unity_test(test_fake_cuda SOURCES unit/fake_cuda_failures_test.cpp unit/fake_cuda_feeder_test.cpp
    unit/fake_cuda_launches_test.cpp unit/fake_cuda_layout_test.cpp unit/fake_cuda_profile_test.cpp
    unit/fake_cuda_test.cpp
    ${CMAKE_SOURCE_DIR}/runtime/cuda/image_layout.cpp support/fake_processes.cpp support/training_run.cpp
    DEPENDS unity_runtime unity_search unity_models nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
  add_dependencies(test_fake_cuda fake_cuda unity)
  foreach(gpus 1 2 4)
    foreach(order forward backward mixed)
      if(gpus EQUAL 2 AND NOT order STREQUAL mixed)
        continue()
      endif()
      set(name "test_device on ${gpus} fake GPUs, streams ${order}")
      add_test(NAME ${name} COMMAND test_device "~every kind of model*" "~operators on the GPU*"
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      set_tests_properties(${name} PROPERTIES
        ENVIRONMENT "UNITY_PLUGINS=${CMAKE_BINARY_DIR}/fake_cuda;UNITY_FAKE_GPUS=${gpus};UNITY_FAKE_ORDER=${order}")
    endforeach()
  endforeach()
  # As taken by default, and with the other layout of images and the last of the kernels to choose from.
  foreach(ways "" "UNITY_CUDA_LAYOUT=channels-last;UNITY_CUDA_TUNE=last")
    string(REPLACE ";" " " name "operators and models on a fake GPU ${ways}")
    string(STRIP "${name}" name)
    add_test(NAME "${name}" COMMAND test_device "operators on the GPU*,every kind of model*"
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties("${name}" PROPERTIES
      ENVIRONMENT "UNITY_PLUGINS=${CMAKE_BINARY_DIR}/fake_cuda;UNITY_FAKE_GPUS=1;UNITY_TEST_PLANS=1;${ways}")
  endforeach()
endif()
