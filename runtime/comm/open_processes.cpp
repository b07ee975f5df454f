#include "runtime/comm/open_processes.h"

#include <cstdlib>

#include <unistd.h>

#include "core/base/text.h"
#include "runtime/comm/launch.h"
#include "runtime/plugin.h"

namespace unity {
namespace {

constexpr std::size_t kVersionShown = 60;  // Open MPI's goes on with how it was built

std::string shown_version(const std::string& transport) { return transport.substr(0, kVersionShown); }

}  // namespace

std::unique_ptr<Processes> open_processes(const std::string& comm, std::chrono::milliseconds patience) {
  std::optional<Launch> launch = find_launch([](const char* name) { return std::getenv(name); });
  if (comm == "threads" || (comm == "nccl" && (!launch || launch->size == 1)))
    return std::make_unique<Processes>(patience);
  if (comm != "mpi" && comm != "nccl")
    throw_input_error("--comm: '{}' is not known{}", comm, suggestion(comm, {"threads", "mpi", "nccl"}));
  auto* make = reinterpret_cast<Transport* (*)(int)>(open_plugin(
      "mpi", "unity_make_mpi_transport", "install OpenMPI (libopenmpi-dev, openmpi-bin), configure anew and build"));
  std::unique_ptr<Transport> transport;
  {
    StartLimit limit(patience, [&] {
      fmt::print(stderr, "unity: error: {}\n", start_overdue(launch, patience));
      ::_exit(1);
    });
    transport.reset(make(kPluginVersion));
  }
  if (!transport) throw_input_error("mpi: the plug-in was built with another version of unity; build anew");
  refuse_singleton(launch, transport->size(), shown_version(transport->version()));
  auto processes = std::make_unique<Processes>(std::move(transport), patience);
  processes->report_termination();
  return processes;
}

void require_same_versions(Processes& processes, const std::string& unity) {
  processes.require_equal("versions, expected the same everywhere",
                          fmt::format("unity {} on {}", unity, shown_version(processes.transport_version())));
}

}  // namespace unity
