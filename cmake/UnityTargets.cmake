# Flags that every target shares, and the two ways to declare one.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(LLD NAMES ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()

# GCC 12 reports the members of a variant as uninitialised where they are not; clang reports what GCC's library uses.
set(UNITY_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
set(UNITY_SANITIZE "" CACHE STRING "Sanitizers, as given to -fsanitize=")
if(UNITY_SANITIZE)
  add_compile_options(-fsanitize=${UNITY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${UNITY_SANITIZE})
endif()
option(UNITY_COVERAGE "Count which lines run: preset coverage" OFF)
if(UNITY_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()

# unity_library(NAME SOURCES ... DEPENDS ... [PRIVATE ...]): a folder's target, with warnings as errors. DEPENDS is what
# the folder's headers may include, so the linker enforces the direction of dependencies.
function(unity_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
  target_compile_options(${name} PRIVATE ${UNITY_WARNINGS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
endfunction()
