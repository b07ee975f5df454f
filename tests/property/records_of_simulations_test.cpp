// What the simulator says of collectives on every machine, and of iterations under several plans, as it is on record.
#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/plan/repeat.h"
#include "core/plan/schedule.h"
#include "simulator/analysis/bounds.h"
#include "simulator/analysis/network_report.h"
#include "simulator/analysis/steady_state.h"
#include "simulator/analysis/what_if.h"
#include "simulator/incremental/resimulate.h"
#include "simulator/simulate.h"
#include "tests/support/planned.h"
#include "tests/support/records.h"

using namespace unity;
using namespace unity::test;

namespace {

const Schedule kSaving{.remat = {"blocks"}, .offload = Offload::activations_and_optimizer};

constexpr CollectiveKind kKinds[] = {
    CollectiveKind::send,       CollectiveKind::broadcast,      CollectiveKind::reduce,    CollectiveKind::all_reduce,
    CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all};

// Each `stride`th device from the first on.
std::vector<DeviceId> devices_by(int stride, int count) {
  std::vector<DeviceId> group;
  for (int i = 0; i < count; ++i) group.push_back(DeviceId(i * stride));
  return group;
}

std::string text_of(const CollectiveChoice& choice) {
  std::string text;
  for (const CollectiveAlternative& a : choice.alternatives)
    text += fmt::format(" {}{}{} {}", to_string(a.algorithm), a.protocol.empty() ? "" : "/" + a.protocol,
                        a.chunks > 1 ? fmt::format("x{}", a.chunks) : "", a.time.count);
  return text;
}

std::string collectives_of(const Topology& topology, const CollectiveOptions& options = {}) {
  CollectiveCache cache(topology);
  auto devices = static_cast<int>(topology.device_count());
  std::string text;
  for (CollectiveKind kind : kKinds)
    for (auto [stride, count] : {std::pair(1, 2), {1, 3}, {1, 6}, {1, 16}, {2, 4}, {6, 2}, {8, 2}}) {
      if (kind == CollectiveKind::send && count > 2) continue;
      if (stride * (count - 1) >= devices) continue;
      for (std::int64_t bytes : {4'000, 3'000'000, 200'000'000})
        text += fmt::format("{} {}x{} {}:{}\n", to_string(kind), count, stride, bytes,
                            text_of(*cache.choose(kind, devices_by(stride, count), Bytes{bytes}, options)));
    }
  return text;
}

std::string times_of(const SimulationResult& result) {
  std::int64_t memory = 0;
  for (Bytes peak : result.peak_memory) memory = std::max(memory, peak.count);
  std::string text = fmt::format("{} ps, memory {} of", result.iteration.count, memory);
  for (Bytes part : result.memory_by_category[0]) text += fmt::format(" {}", part.count);
  Hash spans = 0, all = 0;
  for (const auto& categories : result.memory_by_category)
    for (Bytes part : categories) all = combine(all, static_cast<Hash>(part.count));
  for (const Span& s : result.trace.spans)
    spans = combine(combine(spans, static_cast<Hash>(s.start.count)), static_cast<Hash>(s.end.count));
  return text + fmt::format(", all {:016x}; {} spans {:016x}\n", all, result.trace.spans.size(), spans);
}

// All that the simulator and what stands on it say of one Program.
std::string iteration_of(const Program& program, const Topology& topology) {
  CollectiveCache cache(topology);
  SimulationOptions options{.links = true};
  PreparedProgram prepared = prepare(program, cache, options);
  SimulationResult whole = simulate(prepared, topology, options);
  std::string text = "alone: " + times_of(whole);
  LowerBounds b = lower_bounds(prepared, topology);
  text += fmt::format("bounds: {} {} {} {} {}\n", b.busiest_device.count, b.whole_machine.count, b.busiest_link.count,
                      b.free_communication.count, b.longest_chain.count);
  for (const BusyLink& l : busiest_links(prepared, topology, whole.trace, 3))
    text += fmt::format("link {}: {} B, {:.6f} {:.6f}, {} like it\n", l.name, l.bytes.count, l.mean, l.peak, l.like_it);
  for (const CollectiveSummary& c : summarise_collectives(prepared))
    text += fmt::format("{} x {} among {}: {} {}, {} ps\n", c.count, to_string(c.kind), c.participants,
                        to_string(c.algorithm), c.protocol, c.idle.count);
  std::vector<std::vector<Scale>> cases;
  for (const Scale& scale : usual_scales(topology)) cases.push_back({scale});
  for (const WhatIf& w : what_if(program, topology, cases))
    text += fmt::format("{}: {} ps\n", w.what, w.iteration.count);
  text += "transfer by transfer: " + times_of(simulate(program, topology, {.steps = true}));
  text += "noise: " + times_of(simulate(program, topology,
                                        {.noise = {.seed = 3, .jitter = 0.2, .stragglers = {{DeviceId(1), 1.5}}}}));
  auto several = repeat(program, 4, {});
  REQUIRE(several.ok());
  SteadyState steady = steady_state(*several, simulate(*several, topology).trace);
  text += fmt::format("repeated: {} ps, bubble {:.6f}\n", steady.iteration().count, steady.bubble);
  Program slower = program;
  slower.tasks[slower.tasks.size() / 2].flops *= 2;
  Recording recording = record(prepared, topology, {.trace = false}, 64);
  Resimulation again = resimulate(prepare(slower, cache, {.trace = false}), recording, topology);
  return text + fmt::format("one task slower: {} ps, {} reused, {} jumps\n", again.result.iteration.count, again.reused,
                            again.jumps);
}

}  // namespace

TEST_CASE("collectives take the times on record, on every machine") {
  Records records("collective_times.txt");
  for (const std::string& name : topology_names()) {
    TopologyOptions machine;
    if (load_topology(name).device_count() > 32) machine.devices = 24;
    Topology topology = load_topology(name, machine);
    records.check(name, collectives_of(topology));
  }
  Topology h100 = load_topology("dgx-h100", {.nodes = 2});
  records.check("dgx-h100, trees", collectives_of(h100, {.algorithm = CollectiveAlgorithm::tree}));
  records.check("dgx-h100, hierarchical in chunks of 1 MB",
                collectives_of(h100, {.algorithm = CollectiveAlgorithm::hierarchical, .chunk = Bytes{1'000'000}}));
}

TEST_CASE("iterations take the times on record") {
  Records records("iterations.txt");
  struct Case {
    const char *model, *strategy, *topology;
    std::int64_t batch;
    TopologyOptions machine;
    Schedule schedule = {};
  };
  for (const Case& c : {Case{"mlp-tiny", "data-parallel", "summit", 16, {.devices = 4}},
                        {"bert-tiny", "expert", "summit", 16, {.devices = 4}},
                        {"bert-tiny", "data-parallel", "dgx-h100", 16, {.nodes = 2}},
                        {"bert-tiny", "expert", "dgx-v100", 16, {.nodes = 1}},
                        {"bert-tiny", "deepspeed-zero", "torus-2d", 16, {.devices = 16}},
                        {"mlp-tiny", "data-parallel", "dragonfly", 24, {.devices = 24}},
                        {"mlp-tiny", "data-parallel", "fat-tree-4to1", 16, {.devices = 16}},
                        {"bert-tiny", "data-parallel", "mixed-gpus", 24, {}},
                        {"dlrm", "expert", "summit", 96, {.nodes = 1}},
                        {"bert-tiny", "expert", "laptop", 16, {}},
                        {"bert-tiny", "data-parallel", "h200-shared", 16, {}},
                        {"bert-tiny", "pipeline", "summit", 16, {.devices = 4}},
                        {"bert-tiny", "pipeline", "dgx-v100", 16, {.nodes = 1}, {.order = PipelineOrder::one_f_one_b}},
                        {"bert-tiny", "expert", "dgx-a100", 16, {.nodes = 1}, kSaving},
                        {"mlp-tiny", "data-parallel", "dgx-h100-rail", 32, {.nodes = 2}, {.bucket = Bytes{100'000}}}}) {
    Topology topology = load_topology(c.topology, c.machine);
    Program program = planned(c.model, c.batch, c.strategy, topology, c.schedule);
    std::string schedule = c.schedule == Schedule() ? "" : ", " + in_words(c.schedule);
    records.check(fmt::format("{} by {} on {}{}", c.model, c.strategy, c.topology, schedule),
                  iteration_of(program, topology));
  }
}
