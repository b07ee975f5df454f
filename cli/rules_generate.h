// The subcommand `unity rules generate`.
#pragma once

namespace CLI {
class App;
}

namespace unity::cli {

void add_rules_generate(CLI::App& rules);

}  // namespace unity::cli
