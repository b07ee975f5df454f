file(GLOB OPS_TESTS CONFIGURE_DEPENDS unit/ops_*_test.cpp property/ops_*_test.cpp support/ops_*.cpp)
unity_test(test_ops SOURCES ${OPS_TESTS} DEPENDS unity_ops unity_cpu)
# Integers wrap there as in the reference evaluator.
set_source_files_properties(support/ops_sharded.cpp PROPERTIES COMPILE_OPTIONS -fwrapv)
