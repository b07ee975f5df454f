#include "runtime/comm/open_processes.h"

#include <cstdlib>

#include "core/base/text.h"
#include "runtime/plugin.h"

namespace unity {

std::unique_ptr<Processes> open_processes(const std::string& comm, std::chrono::milliseconds patience) {
  bool launched = false;
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
    launched = launched || std::getenv(variable) != nullptr;
  if (comm == "threads" || (comm == "nccl" && !launched)) return std::make_unique<Processes>();
  if (comm != "mpi" && comm != "nccl")
    throw_input_error("--comm: '{}' is not known{}", comm, suggestion(comm, {"threads", "mpi", "nccl"}));
  auto* make = reinterpret_cast<Transport* (*)(int)>(open_plugin(
      "mpi", "unity_make_mpi_transport", "install OpenMPI (libopenmpi-dev, openmpi-bin), configure anew and build"));
  std::unique_ptr<Transport> transport(make(kPluginVersion));
  if (!transport) throw_input_error("mpi: the plug-in was built with another version of unity; build anew");
  auto processes = std::make_unique<Processes>(std::move(transport), patience);
  processes->report_termination();
  return processes;
}

}  // namespace unity
