file(GLOB REWRITE_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/rewrite_*_test.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/property/rewrite_*_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/golden/rewrite_*_test.cpp)
unity_test(test_rewrite SOURCES ${REWRITE_TESTS} DEPENDS unity_rewrite)
