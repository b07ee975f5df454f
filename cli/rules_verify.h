// The subcommand `unity rules verify`.
#pragma once

namespace CLI {
class App;
}

namespace unity::cli {

void add_rules_verify(CLI::App& rules);

}  // namespace unity::cli
