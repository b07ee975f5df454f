// The subcommand `unity rules verify`.
#pragma once

#include <string>
#include <vector>

#include "core/rewrite/proof.h"

namespace CLI {
class App;
}

namespace unity::cli {

// Beside the file of rules.
void write_proofs(const std::string& rules_path, const std::vector<ProofRecord>& records);

// Options of all commands that prove rules.
void add_seconds(CLI::App& command, double& seconds);
void add_instances(CLI::App& command, int& instances);
void add_jobs(CLI::App& command, int& jobs);

void add_rules_verify(CLI::App& rules);

}  // namespace unity::cli
