file(GLOB MACHINE_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/machine_*_test.cpp)
unity_test(test_machine SOURCES ${MACHINE_TESTS} DEPENDS unity_machine)
