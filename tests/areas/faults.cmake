# What kills, full disks and flipped bits do to files. Quick parts only; tests/faults/README.md says what else there is.
unity_test(test_faults SOURCES unit/faults_bits_test.cpp
  DEPENDS unity_runtime unity_models nlohmann_json::nlohmann_json)
find_package(Python3 QUIET COMPONENTS Interpreter)
foreach(name kill_training kill_commands full_disk flip_bits effective_time)
  if(Python3_FOUND)
    add_test(NAME "faults: ${name}" COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/../faults/${name} --quick
      --build ${CMAKE_BINARY_DIR})
    set_tests_properties("faults: ${name}" PROPERTIES LABELS faults SKIP_RETURN_CODE 77 TIMEOUT 300)
  endif()
endforeach()
