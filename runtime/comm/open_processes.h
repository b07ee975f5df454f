// The processes that were started together with this one.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/comm/processes.h"

namespace unity {

// "threads": this process alone. "mpi": those of mpirun or srun. "nccl": as "mpi" where there are any,
// else as "threads". InputError for other names, and where MPI is not in
// this build or not on this machine.
std::unique_ptr<Processes> open_processes(const std::string& comm, std::chrono::milliseconds patience);

}  // namespace unity
