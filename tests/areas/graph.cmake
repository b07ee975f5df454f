file(GLOB GRAPH_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/graph_*_test.cpp)
unity_test(test_graph SOURCES ${GRAPH_TESTS} DEPENDS unity_graph)
