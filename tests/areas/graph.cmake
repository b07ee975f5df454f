file(GLOB GRAPH_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/graph_*_test.cpp)
unity_test(test_graph SOURCES ${GRAPH_TESTS} DEPENDS unity_graph)
file(GLOB MODELS_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/models_*_test.cpp)
unity_test(test_models SOURCES ${MODELS_TESTS} DEPENDS unity_models)
