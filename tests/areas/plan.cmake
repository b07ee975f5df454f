unity_test(test_plan SOURCES unit/plan_lower_test.cpp support/interpret.cpp DEPENDS unity_plan)
