// Times of a message and of collectives between the processes of mpirun, each a node of the topology with its devices:
// measured by running a Program of just that, by the algorithm that lowering chooses, and simulated. Of one device in
// each node a message and an all-reduce; of several an all-reduce, all-gather and reduce-scatter. Prints one JSON
// document. `unity profile --comm` has all kinds.
//
//   mpirun -np 3 collective_times TOPOLOGY REPETITIONS MEGABYTES...

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/machine/topology.h"
#include "core/plan/collective_algorithms.h"
#include "runtime/comm/open_processes.h"
#include "runtime/executor.h"
#include "runtime/profile/single_task.h"
#include "simulator/simulate.h"

using namespace unity;

namespace {

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
  const Topology whole = load_topology(argv[1]);
  const auto nodes = static_cast<std::size_t>(processes->size());
  const std::size_t per_node = by_node(whole, first_devices(static_cast<int>(whole.device_count())))[0].size();
  const Topology topology = whole.first_devices(static_cast<int>(nodes * per_node));
  const std::vector<DeviceId> all = first_devices(static_cast<int>(topology.device_count()));
  using enum CollectiveKind;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (CollectiveKind kind :
       per_node == 1 ? std::vector{send, all_reduce} : std::vector{all_reduce, all_gather, reduce_scatter})
    for (int i = 3; i < argc; ++i) {
      const auto bytes = static_cast<std::int64_t>(std::atof(argv[i]) * 1e6) / 4 * 4;
      Program program = collective_program(kind, std::span(all).first(kind == send ? 2 : all.size()), bytes / 4);
      program.name = fmt::format("{} of {} bytes", to_string(kind), bytes);
      program.devices = static_cast<int>(all.size());
      choose_algorithms(program, CollectiveAlgorithms(topology));
      const CommunicationAlgorithm algorithm = program.communications[0].algorithm;
      std::vector<double> seconds = measure(program, *processes, std::atoi(argv[2]));
      double median = seconds[seconds.size() / 2], simulated = simulate(program, topology).iteration.seconds();
      rows.push_back({{"kind", to_string(kind)},
                      {"devices", kind == send ? 2 : all.size()},
                      {"algorithm", algorithm.name ? to_string(*algorithm.name) : "plain"},
                      {"chunks", algorithm.chunks},
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
