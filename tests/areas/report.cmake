file(GLOB REPORT_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/report_*_test.cpp)
unity_test(test_report SOURCES ${REPORT_TESTS} DEPENDS unity_report)
