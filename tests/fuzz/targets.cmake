# Fuzz targets, a family for each source. With UNITY_FUZZ (preset `fuzz`), each family is a libFuzzer program; else a
# test program that replays seeds, former findings, and mutations of both (tests/areas/fuzz.cmake).
set(fuzz ${CMAKE_SOURCE_DIR}/tests/fuzz)
set(support ${CMAKE_SOURCE_DIR}/tests/support)

# What runs the targets of any family.
add_library(unity_fuzz_common OBJECT ${fuzz}/target.cpp ${fuzz}/former_findings.cpp)
target_link_libraries(unity_fuzz_common PUBLIC unity_base)
if(UNITY_FUZZ)
  target_sources(unity_fuzz_common PRIVATE ${fuzz}/fuzzer.cpp)
  add_custom_target(fuzzers)
else()
  target_sources(unity_fuzz_common PRIVATE ${fuzz}/replay_test.cpp)
  target_link_libraries(unity_fuzz_common PRIVATE Catch2::Catch2)
endif()
target_include_directories(unity_fuzz_common PRIVATE ${CMAKE_SOURCE_DIR} ${UNITY_TEST_PATHS})
target_compile_options(unity_fuzz_common PRIVATE ${UNITY_WARNINGS})

# unity_fuzz_family(NAME SOURCES ... DEPENDS ...): NAME_targets.cpp with what it checks.
function(unity_fuzz_family name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  set(sources ${fuzz}/${name}_targets.cpp ${ARG_SOURCES})
  if(NOT UNITY_FUZZ)
    unity_test(test_fuzz_${name} SOURCES ${sources} DEPENDS unity_fuzz_common ${ARG_DEPENDS})
    return()
  endif()
  add_executable(fuzz_${name} ${sources})
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR} ${UNITY_TEST_PATHS})
  target_compile_options(fuzz_${name} PRIVATE ${UNITY_WARNINGS})
  target_link_libraries(fuzz_${name} PRIVATE unity_fuzz_common ${ARG_DEPENDS})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers fuzz_${name})
endfunction()

unity_fuzz_family(machine DEPENDS unity_machine_import)
unity_fuzz_family(text DEPENDS unity_rewrite)
unity_fuzz_family(file DEPENDS unity_report unity_simulator)
unity_fuzz_family(program SOURCES ${support}/simulator_build.cpp DEPENDS unity_simulator unity_models)

set(data_depends unity_rule_import nlohmann_json::nlohmann_json ZLIB::ZLIB)
if(UNITY_FUZZ)  # the files that read data, without the kernels
  find_package(JPEG REQUIRED)
  find_package(PNG REQUIRED)
  file(GLOB data_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/data/*.cpp)
  unity_library(unity_fuzz_data
    SOURCES ${data_sources} ${CMAKE_SOURCE_DIR}/runtime/checkpoint/index.cpp ${CMAKE_SOURCE_DIR}/runtime/host_tensor.cpp
    DEPENDS unity_plan PRIVATE nlohmann_json::nlohmann_json ZLIB::ZLIB JPEG::JPEG PNG::PNG)
  target_compile_definitions(unity_fuzz_data PRIVATE UNITY_DATA_FOLDER="")
  list(APPEND data_depends unity_fuzz_data)
else()
  list(APPEND data_depends unity_runtime)
endif()
unity_fuzz_family(data DEPENDS ${data_depends})

if(TARGET unity_onnx)
  unity_fuzz_family(model DEPENDS unity_onnx unity_models onnx_proto protobuf::libprotobuf)
  foreach(target fuzz_model test_fuzz_model)
    if(TARGET ${target})
      target_compile_definitions(${target} PRIVATE ONNX_NAMESPACE=onnx ONNX_ML=1)
    endif()
  endforeach()
endif()
