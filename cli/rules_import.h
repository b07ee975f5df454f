// The subcommand `unity rules import`.
#pragma once

namespace CLI {
class App;
}

namespace unity::cli {

void add_rules_import(CLI::App& rules);

}  // namespace unity::cli
