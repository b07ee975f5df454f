// Times of a message and of a ring all-reduce between the processes of mpirun, one device each: measured by running a
// Program of just that, and simulated on a topology. Prints one JSON document. `unity profile --comm` has all kinds.
//
//   mpirun -np 3 collective_times TOPOLOGY REPETITIONS MEGABYTES...

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/machine/topology.h"
#include "runtime/comm/open_processes.h"
#include "runtime/executor.h"
#include "simulator/simulate.h"
#include "tests/support/runtime_program.h"

using namespace unity;

namespace {

Program program_of(CollectiveKind kind, int devices, std::int64_t bytes) {
  test::ProgramByHand p;
  p.program.name = fmt::format("{} of {} bytes", to_string(kind), bytes);
  p.program.devices = devices;
  Box all{{0}, {bytes / 4}};
  std::int32_t tensor = p.tensor("x", {bytes / 4});
  Communication c;
  c.kind = kind;
  c.name = "x";
  int members = kind == CollectiveKind::send ? 2 : devices;
  for (int d = 0; d < members; ++d) {
    BufferId b = p.buffer(tensor, d, all);
    bool one_way = kind == CollectiveKind::send;
    c.participants.push_back(
        {DeviceId(d), one_way && d == 1 ? BufferId() : b, one_way && d == 0 ? BufferId() : b, all});
  }
  p.communicate(std::move(c), {});
  return p.program;
}

std::vector<double> measure(const Program& program, Processes& processes, int repetitions) {
  Executor executor(program, {.processes = &processes});
  executor.step(true);
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) seconds.push_back(executor.step(true).trace->iteration.seconds());
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) throw_input_error("expected TOPOLOGY REPETITIONS MEGABYTES...");
  std::unique_ptr<Processes> processes = open_processes("mpi", std::chrono::seconds(120));
  int n = processes->size();
  Topology topology = load_topology(argv[1]).first_devices(n);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (CollectiveKind kind : {CollectiveKind::send, CollectiveKind::all_reduce})
    for (int i = 3; i < argc; ++i) {
      auto bytes = static_cast<std::int64_t>(std::atof(argv[i]) * 1e6) / 4 * 4;
      Program program = program_of(kind, n, bytes);
      std::vector<double> seconds = measure(program, *processes, std::atoi(argv[2]));
      double median = seconds[seconds.size() / 2], simulated = simulate(program, topology).iteration.seconds();
      rows.push_back({{"kind", to_string(kind)},
                      {"devices", kind == CollectiveKind::send ? 2 : n},
                      {"bytes", bytes},
                      {"measured_seconds", median},
                      {"least_seconds", seconds.front()},
                      {"simulated_seconds", simulated},
                      {"ratio", median / simulated}});
    }
  if (processes->rank() == 0) std::puts(rows.dump(2).c_str());
  std::fflush(stdout);
  processes->barrier();
} catch (const std::exception& e) {
  fmt::print(stderr, "collective_times: {}\n", e.what());
  std::_Exit(1);
}
