unity_test(test_checkpoint SOURCES property/checkpoint_plans_test.cpp unit/checkpoint_files_test.cpp unit/checkpoint_sessions_test.cpp
  unit/checkpoint_training_test.cpp
  DEPENDS unity_search unity_models unity_runtime nlohmann_json::nlohmann_json)
