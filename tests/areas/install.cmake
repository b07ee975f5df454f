# What is installed and packed, and what the shells are told.
unity_test(test_install SOURCES install/completion_test.cpp install/installed_test.cpp DEPENDS nlohmann_json::nlohmann_json)
target_compile_definitions(test_install PRIVATE UNITY_CMAKE="${CMAKE_COMMAND}" UNITY_SANITIZE="${UNITY_SANITIZE}")
add_dependencies(test_install unity unity_completion unity_simulator unity_report unity_models unity_generate)
foreach(target unity-gui unity_mpi unity_cuda unity_onnx unity_verify unity_chakra unity_machine_import unity_rule_import)
  if(TARGET ${target})
    add_dependencies(test_install ${target})
  endif()
endforeach()
