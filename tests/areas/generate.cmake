file(GLOB GENERATE_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/generate_*_test.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/property/generate_*_test.cpp)
unity_test(test_generate SOURCES ${GENERATE_TESTS} DEPENDS unity_generate)
