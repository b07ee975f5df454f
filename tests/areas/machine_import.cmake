file(GLOB MACHINE_IMPORT_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/import_*_test.cpp)
unity_test(test_machine_import SOURCES ${MACHINE_IMPORT_TESTS} DEPENDS unity_machine_import nlohmann_json::nlohmann_json)
add_dependencies(test_machine_import unity)
