file(GLOB SCHEDULE_TESTS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/schedule_*_test.cpp)
unity_test(test_schedule SOURCES ${SCHEDULE_TESTS} support/simulator_build.cpp
  DEPENDS unity_search unity_models unity_simulator)
unity_test(test_schedule_equivalence SOURCES property/schedule_equivalence_test.cpp
  property/schedule_fuse_chains_test.cpp property/schedule_delayed_weights_test.cpp property/schedule_repeat_test.cpp
  property/staged_plans_test.cpp support/training_run.cpp
  DEPENDS unity_search unity_models unity_simulator unity_runtime)
