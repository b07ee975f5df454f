file(GLOB OPS_TESTS CONFIGURE_DEPENDS unit/ops_*_test.cpp property/ops_*_test.cpp support/ops_*.cpp)
unity_test(test_ops SOURCES ${OPS_TESTS} DEPENDS unity_ops unity_cpu)
