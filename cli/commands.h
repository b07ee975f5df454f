// The subcommands of `unity`. add_NAME declares the options of a subcommand and what happens when it is called.
#pragma once

namespace CLI {
class App;
}

namespace unity::cli {

#define UNITY_COMMAND(name) void add_##name(CLI::App& app);
#include "cli/commands.def"
#undef UNITY_COMMAND

// A subcommand with its description and examples (shown below the options by --help).
CLI::App* add_command(CLI::App& app, const char* name, const char* description, const char* examples);

}  // namespace unity::cli
