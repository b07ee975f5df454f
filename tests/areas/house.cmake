# The tree itself: which folder includes which, what stands in the READMEs.
unity_test(test_house SOURCES unit/house_test.cpp)
