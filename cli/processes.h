// Commands that run programs can do so in several processes, started by mpirun or srun.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/comm/processes.h"

namespace unity::cli {

struct ProcessOptions {
  std::string comm = "threads", logs;
  double timeout = 300;  // seconds

  void add(CLI::App& command);
};

// Calls body as one of the processes. Rank 0 speaks for all; what others print goes to their logs, if any. When body
// throws, the error is printed with the rank, the others are told, and all end.
void with_processes(const ProcessOptions& options, const std::function<void(Processes&)>& body);

}  // namespace unity::cli
