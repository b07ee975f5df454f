file(GLOB BASE_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/base_*_test.cpp)
unity_test(test_base SOURCES ${BASE_TESTS} DEPENDS unity_base yaml-cpp)
