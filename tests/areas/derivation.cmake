file(GLOB DERIVATION_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/derivation_*_test.cpp)
unity_test(test_derivation SOURCES ${DERIVATION_TESTS} DEPENDS unity_rewrite)
