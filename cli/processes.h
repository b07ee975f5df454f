// Commands that run programs can do so in several processes, started by mpirun or srun.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "core/machine/topology.h"
#include "runtime/comm/processes.h"

namespace unity::cli {

struct ProcessOptions {
  std::string comm = "threads", logs;
  const CLI::Option* comm_option = nullptr;
  double timeout = 300;  // seconds

  void add(CLI::App& command);
  void require_backend(const std::string& backend) const;  // InputError: it can not communicate so
};

// Calls body as one of the processes. Rank 0 speaks for all; what others print goes to their logs, if any. When body
// throws, the error is printed with the rank, the others are told, and all end. InputError in a process that mpirun or
// srun started as one of several, without --comm: each would run body for itself.
void with_processes(const ProcessOptions& options, const std::function<void(Processes&)>& body);

// Where processes of several hosts are not where the topology has their devices. All processes call it.
void warn_of_places(Processes& processes, const Topology& topology);

}  // namespace unity::cli
