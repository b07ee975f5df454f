file(GLOB TRACE_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/trace_*_test.cpp)
unity_test(test_trace SOURCES ${TRACE_TESTS} DEPENDS unity_trace nlohmann_json::nlohmann_json)
