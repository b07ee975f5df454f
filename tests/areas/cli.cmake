unity_test(test_cli SOURCES cli/cli_bench_test.cpp cli/cli_commands_test.cpp cli/cli_collectives_test.cpp cli/cli_memory_test.cpp cli/cli_profile_test.cpp cli/cli_report_test.cpp cli/cli_rules_test.cpp cli/cli_sweep_test.cpp cli/cli_validate_test.cpp DEPENDS nlohmann_json::nlohmann_json)
add_dependencies(test_cli unity)
