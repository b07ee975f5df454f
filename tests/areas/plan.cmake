unity_test(test_plan SOURCES unit/plan_lower_test.cpp unit/plan_optimizer_test.cpp unit/plan_file_test.cpp unit/plan_row_updates_test.cpp unit/plan_task_key_test.cpp unit/plan_task_pool_test.cpp unit/plan_check_program_test.cpp unit/plan_pieces_in_words_test.cpp
  support/interpret.cpp DEPENDS unity_search unity_runtime)
unity_test(test_search SOURCES unit/search_baselines_test.cpp unit/search_log_test.cpp unit/search_mapping_test.cpp unit/search_memory_test.cpp unit/search_plan_test.cpp
  unit/search_placed_test.cpp unit/search_hidden_test.cpp unit/search_rewritings_test.cpp unit/search_exact_sharding_test.cpp
  unit/search_shares_test.cpp property/mapping_shares_test.cpp
  unit/search_split_test.cpp unit/search_outputs_test.cpp unit/search_stage_memory_test.cpp unit/search_stages_test.cpp unit/search_mixed_pipelines_test.cpp unit/search_intra_stage_test.cpp unit/search_known_plans_test.cpp property/lowered_blocks_test.cpp
  DEPENDS unity_search unity_models unity_simulator)
unity_test(test_equivalence SOURCES property/plan_equivalence_test.cpp property/model_plans_test.cpp
  property/vocabulary_parallel_test.cpp property/inference_test.cpp support/training_run.cpp
  DEPENDS unity_search unity_models unity_runtime)
unity_test(test_worked_example SOURCES property/worked_example_test.cpp DEPENDS unity_search unity_models unity_simulator)
unity_test(test_training SOURCES property/training_equality_test.cpp
  DEPENDS unity_search unity_models unity_simulator unity_runtime)
