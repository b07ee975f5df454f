file(GLOB RULE_IMPORT_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/rule_import_*_test.cpp)
unity_test(test_rule_import SOURCES ${RULE_IMPORT_TESTS} DEPENDS unity_rule_import unity_verify ZLIB::ZLIB
  nlohmann_json::nlohmann_json)
add_dependencies(test_rule_import unity)
