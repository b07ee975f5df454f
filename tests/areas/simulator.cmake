file(GLOB SIMULATOR_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/simulator_*_test.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/property/simulator_*_test.cpp)
unity_test(test_simulator SOURCES ${SIMULATOR_TESTS} support/simulator_build.cpp DEPENDS unity_simulator unity_models)
