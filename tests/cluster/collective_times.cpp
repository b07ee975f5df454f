// Times of communications between the processes of mpirun, one device each: measured by running a Program of just that,
// and simulated on a topology. Prints one JSON document. On CPUs a message and a ring all-reduce; on GPUs, by NCCL, all
// that Programs have, several in a row: the time from the end of one to that of the next.
//
//   mpirun -np 3 collective_times TOPOLOGY REPETITIONS MEGABYTES...
//   mpirun -np 8 collective_times --backend cuda TOPOLOGY REPETITIONS MEGABYTES...
//
// One process has all devices of the topology.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/machine/topology.h"
#include "runtime/comm/open_processes.h"
#include "runtime/executor.h"
#include "runtime/profile/single_task.h"
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

constexpr int kInARow = 5;

// Seconds, ascending.
std::vector<double> measure_row(const Program& one, Processes& processes, int repetitions) {
  SingleTaskProgram row = single_task_program(one, TaskId(0), {.sets = 1, .repeats = kInARow, .flush = {}});
  row.program.devices = one.devices;
  Executor executor(row.program, {.backend = "cuda", .processes = &processes});
  executor.step(true);
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    Trace trace = *executor.step(true).trace;
    auto end = [&](TaskId task) {
      auto found = std::find_if(trace.spans.begin(), trace.spans.end(),
                                [&](const Span& s) { return s.task == task && s.device == DeviceId(0); });
      UNITY_CHECK(found != trace.spans.end(), "no span of task {}", task);
      return found->end.seconds();
    };
    seconds.push_back((end(row.runs[0].back()) - end(row.runs[0].front())) / (kInARow - 1));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
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
  bool gpus = argc > 2 && std::string_view(argv[1]) == "--backend" && std::string_view(argv[2]) == "cuda";
  if (gpus) argc -= 2, argv += 2;
  if (argc < 4) throw_input_error("expected [--backend cuda] TOPOLOGY REPETITIONS MEGABYTES...");
  std::unique_ptr<Processes> processes = open_processes(gpus ? "nccl" : "mpi", std::chrono::seconds(120));
  Topology topology = load_topology(argv[1]);
  int n = processes->size() > 1 ? processes->size() : static_cast<int>(topology.devices.size());
  topology = topology.first_devices(n);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::vector<CollectiveKind> kinds = {CollectiveKind::send, CollectiveKind::all_reduce};
  if (gpus)
    for (CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
      kinds.push_back(kind);
  for (CollectiveKind kind : kinds)
    for (int i = 3; i < argc; ++i) {
      auto bytes = static_cast<std::int64_t>(std::atof(argv[i]) * 1e6) / 4 * 4;
      Program program =
          gpus ? collective_program(kind, kind == CollectiveKind::send ? 2 : n, bytes / 4) : program_of(kind, n, bytes);
      program.devices = n;
      std::vector<double> seconds = gpus ? measure_row(program, *processes, std::atoi(argv[2]))
                                         : measure(program, *processes, std::atoi(argv[2]));
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
