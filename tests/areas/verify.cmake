file(GLOB VERIFY_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/verify_*_test.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/property/verify_*_test.cpp)
unity_test(test_verify SOURCES ${VERIFY_TESTS} support/mutate_rule.cpp DEPENDS unity_verify)
