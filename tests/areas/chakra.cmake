if(TARGET unity_chakra)
  unity_test(test_chakra SOURCES unit/chakra_export_test.cpp support/simulator_build.cpp
    DEPENDS unity_chakra unity_simulator unity_models protobuf::libprotobuf nlohmann_json::nlohmann_json)
  target_include_directories(test_chakra SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/core/trace/chakra)
endif()
