// The processes that were started together with this one.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/comm/processes.h"

namespace unity {

// "threads": this process alone. "mpi": those of mpirun or srun. "nccl": as "mpi" where these are several,
// else as "threads". InputError for other names, where MPI is not in this build or not on this machine, and where it
// finds this process alone although it was started as one of several. When the others have not come within the
// patience, prints so and ends this process with code 1: MPI gives no other way out of its start.
std::unique_ptr<Processes> open_processes(const std::string& comm, std::chrono::milliseconds patience);

// InputError that names the processes which are of another unity (its version and commit), or have another MPI.
void require_same_versions(Processes& processes, const std::string& unity);

}  // namespace unity
