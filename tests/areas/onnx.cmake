if(TARGET unity_onnx)
  file(GLOB ONNX_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/onnx_*_test.cpp)
  unity_test(test_onnx SOURCES ${ONNX_TESTS} support/onnx_file.cpp
    DEPENDS unity_onnx onnx_proto protobuf::libprotobuf nlohmann_json::nlohmann_json)
  target_compile_definitions(test_onnx PRIVATE ONNX_NAMESPACE=onnx ONNX_ML=1)
  add_dependencies(test_onnx unity)
endif()
