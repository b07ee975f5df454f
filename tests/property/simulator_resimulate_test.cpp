// What a recording lets a simulation skip changes no bit: every start and end and all memory are those of simulate().
#include <catch2/catch.hpp>

#include "core/machine/profile.h"
#include "core/models/models.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "simulator/folding/folded.h"
#include "simulator/incremental/resimulate.h"
#include "tests/support/planned.h"
#include "tests/support/random_plan.h"
#include "tests/support/seed.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

Resimulation check_same(const PreparedProgram& changed, const Recording& recording, const Topology& topology) {
  Resimulation again = resimulate(changed, recording, topology);
  SimulationOptions options = recording.options;
  options.trace = true;
  SimulationResult whole = simulate(changed, topology, options);
  CHECK(again.result.iteration == whole.iteration);
  CHECK(again.result.peak_memory == whole.peak_memory);
  CHECK(again.result.memory_by_category == whole.memory_by_category);
  CHECK(again.result.profiled_tasks == whole.profiled_tasks);
  CHECK(again.result.estimated_tasks == whole.estimated_tasks);
  std::size_t different = 0;
  for (const Span& s : whole.trace.spans) different += again.tasks[s.task.index()] != TaskInterval{s.start, s.end};
  CHECK(different == 0);
  CHECK(again.reused + again.simulated == static_cast<std::int64_t>(changed.program->tasks.size()));
  return again;
}

Resimulation check_same(const Program& before, const Program& after, const Topology& topology,
                        const SimulationOptions& options = {}, std::size_t moments = 64) {
  CollectiveCache cache(topology);
  PreparedProgram prepared = prepare(before, cache, options), changed = prepare(after, cache, options);
  return check_same(changed, record(prepared, topology, options, moments), topology);
}

// Two devices, each with tasks of 1 us one after the other, but the one in the middle of `middle` us on device 0 and
// `other` us on device 1.
Program chains(int tasks, double middle, double other) {
  ProgramBuilder b(2);
  for (int i = 0; i < tasks; ++i) {
    b.compute(0, i == tasks / 2 ? middle : 1);
    b.compute(1, i == tasks / 2 ? other : 1);
  }
  return b.program;
}

// A mapping of one operator that is another one: turned round, or moved as far as there is room.
std::vector<MachineMapping> with_other_mapping(const Pcg& pcg, std::vector<MachineMapping> mappings, int devices,
                                               std::mt19937_64& random) {
  std::size_t n = random() % pcg.size();
  TaskGrid grid = node_grid(pcg, NodeId(static_cast<std::int64_t>(n)));
  MachineMapping& mapping = mappings[n];
  if (mapping.strides.size() != grid.size()) return mappings;
  int low = mapping.start, high = low;
  for (std::size_t g = 0; g < grid.size(); ++g) {
    int reach = mapping.strides[g] * (grid[g].degree - 1);
    (reach < 0 ? low : high) += reach;
  }
  if (random() % 2) {
    mapping.start = low + high - mapping.start;
    for (int& stride : mapping.strides) stride = -stride;
  } else {
    mapping.start += static_cast<int>(random() % static_cast<std::uint64_t>(devices - high + low)) - low;
  }
  return mappings;
}

// Some tasks at one place take longer, do not wait for some task any more, or wait for one more.
Program with_other_tasks(Program program, std::mt19937_64& random) {
  std::size_t first = random() % program.tasks.size(), last = std::min(first + 1 + random() % 5, program.tasks.size());
  for (std::size_t t = first; t < last; ++t) {
    Task& task = program.tasks[t];
    if (random() % 2) task.flops = task.flops * 1.5 + 1e6;
    if (random() % 3 == 0) task.dependencies_end = task.dependencies_begin;
    if (random() % 3 == 0 && t > 0) {
      task.dependencies_begin = static_cast<std::uint32_t>(program.dependencies.size());
      program.dependencies.push_back(TaskId(static_cast<std::int64_t>(random() % t)));
      task.dependencies_end = task.dependencies_begin + 1;
    }
  }
  return program;
}

// Of up to four devices of one machine, of which as many help as there are free cores.
DeviceProfile with_collectives() {
  DeviceProfile profile;
  ProfileSection section;
  for (const char* kind : {"send", "broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
    for (int n : {2, 3, 4})
      section.curves[fmt::format("{} of {}", kind, n)] = {{1000, 2e-6, 3e-6}, {1'000'000, 9e-5, 1e-4}};
  profile.sections[1] = section;
  return profile;
}

// Of the kinds that data parallelism has, by links.
DeviceProfile with_measured_links(const Topology& topology) {
  DeviceProfile profile;
  profile.collectives = collectives_of(topology, "nccl", 1);
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter"})
    for (const char* group : {"2 gpu", "4 gpu", "8 gpu", "2 node", "2 node x 8 gpu"})
      profile.collectives->times[fmt::format("{} of {}", kind, group)] = {{1000, 2e-5, 2e-5}, {1e6, 9e-5, 9e-5}};
  return profile;
}

}  // namespace

TEST_CASE("a program that has not changed is copied as a whole") {
  Program program = chains(100, 1, 1);
  Resimulation again = check_same(program, program, all_pairs(2, 1));
  CHECK(again.jumps == 1);
  CHECK(again.reused == 200);
}

TEST_CASE("a delay of all devices by one change is simulated where it comes, and copied after that") {
  // The tasks before the change end at 50 us, that one takes 3 us instead of 1, 49 us follow.
  Resimulation again = check_same(chains(100, 1, 1), chains(100, 3, 3), all_pairs(2, 1), {}, 1000);
  CHECK(again.result.iteration == from_seconds(102e-6));
  CHECK(again.jumps == 2);
  CHECK(again.simulated == 4);  // on each device the task before the change, of whose end it hears, and the change
}

TEST_CASE("nothing is copied while devices are delayed by different times") {
  Resimulation again = check_same(chains(100, 1, 1), chains(100, 3, 2), all_pairs(2, 1), {}, 1000);
  CHECK(again.jumps == 1);
  CHECK(again.simulated == 2 * 51);  // from the task before the change on
}

TEST_CASE("devices that wait for one another afterwards are delayed alike again") {
  auto program = [](double middle) {
    ProgramBuilder b(2);
    b.program = chains(100, middle, 1);
    TaskId all = b.communicate(CollectiveKind::all_reduce, {0, 1}, 1000, {TaskId(198), TaskId(199)});
    for (int i = 0; i < 100; ++i) b.compute(i % 2, 1, {all});
    return b.program;
  };
  Resimulation again = check_same(program(1), program(3), all_pairs(2, 1), {}, 1000);
  CHECK(again.jumps == 2);
  CHECK(again.reused == 2 * 49 + 1 + 100);  // before the task before the change; the communication, what waits for it
}

TEST_CASE("a flow that the change slows down is not copied, one that it only delays is") {
  auto program = [](std::int64_t elements, double before) {
    ProgramBuilder b(3);
    TaskId first = b.compute(0, before);
    b.communicate(CollectiveKind::send, {0, 2}, 100'000, {first});
    b.communicate(CollectiveKind::send, {1, 2}, elements, {first});
    for (int d = 0; d < 3; ++d) b.compute(d, 1);
    return b.program;
  };
  MachineBuilder m(3);
  VertexId middle = m.add_switch("switch");
  for (int d = 0; d < 3; ++d) m.link(m.device(d), middle, 1);
  Topology star = m.finish();
  CHECK(check_same(program(100'000, 1), program(100'000, 3), star, {}, 1000).jumps > 0);
  check_same(program(100'000, 1), program(50'000, 1), star, {}, 1000);
}

TEST_CASE("random local changes of programs give the times and the memory of a simulation from nothing") {
  std::uint64_t seed = seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  // As many as have no divisor in common with what else goes by turns.
  std::vector<Topology> machines{load_topology("summit", {.nodes = 2}),
                                 load_topology("dgx-a100", {.nodes = 2}),
                                 load_topology("laptop"),
                                 load_topology("pcie-host", {.nodes = 2}),
                                 load_topology("laptop"),
                                 load_topology("h200-shared"),
                                 load_topology("dgx-h100", {.nodes = 1})};
  use_profile(machines[4], with_collectives());
  for (DeviceSpec& spec : machines.back().specs) spec.interference = 0.2, spec.handover = from_seconds(2e-6);
  std::int64_t reused = 0, simulated = 0;
  for (int i = 0; i < 42; ++i) {
    const Topology& topology = machines[static_cast<std::size_t>(i) % machines.size()];
    auto devices = static_cast<int>(topology.device_count());
    Pcg serial = build_model({i % 3 ? "mlp-tiny" : "bert-tiny", {{"batch", 96}}});
    State state = random_state(serial, devices, random);
    auto mappings = i % 2 ? random_mappings(state.pcg, topology, random) : std::vector<MachineMapping>();
    for (std::size_t n = 0; mappings.size() < state.pcg.size(); ++n)
      mappings.push_back(natural_mapping(node_grid(state.pcg, NodeId(static_cast<std::int64_t>(n)))));
    LowerOptions lowering;
    if (i % 4 == 1) lowering.schedule.offload = Offload::activations;
    Result<Program> lowered = lower(state.pcg, mappings, topology, lowering);
    if (!lowered.ok()) lowered = lower(state.pcg, mappings, topology);
    Program program = std::move(*lowered);
    SimulationOptions options;
    if (i % 7 == 6) options.noise.stragglers = {{DeviceId(1), 1.25}};
    CollectiveCache cache(topology);
    PreparedProgram prepared = prepare(program, cache, options);
    Recording recording = record(prepared, topology, options, 1 + random() % 500);
    for (int change = 0; change < 6; ++change) {
      INFO("plan " << i << ", change " << change);
      Result<Program> changed = program;
      if (change % 2)
        changed = lower(state.pcg, with_other_mapping(state.pcg, mappings, devices, random), topology, lowering);
      else
        changed = with_other_tasks(program, random);
      if (!changed.ok()) continue;
      Resimulation again = check_same(prepare(*changed, cache, options), recording, topology);
      reused += again.reused;
      simulated += again.simulated;
    }
    State other = random_state(serial, devices, random);  // not local
    Program different = lower(other.pcg, random_mappings(other.pcg, topology, random), topology).value();
    check_same(prepare(different, cache, options), recording, topology);
  }
  CHECK(reused > simulated);
}

TEST_CASE("changes of plans that strategies find give the times of a simulation from nothing, folded ones too") {
  std::mt19937_64 random(seed_of_run());
  for (auto [machine, measured] : {std::pair("summit", false), {"dgx-a100", false}, {"dgx-a100", true}}) {
    Topology topology = load_topology(machine, {.nodes = 2});
    if (measured) use_profile(topology, with_measured_links(topology));
    CollectiveCache cache(topology);
    ModelSpec spec{"bert-tiny", {{"batch", static_cast<std::int64_t>(4 * topology.device_count())}}};
    for (const char* strategy : {"data-parallel", "expert", "unity", "pipeline"}) {
      INFO(strategy << " on " << machine);
      SearchOptions search;
      search.strategy = strategy;
      search.budget = 40;
      Plan plan = find_plan(spec, build_model(spec), SimulatedCostModel(topology), search).value();
      Program program = lower(plan.pcg, plan.mappings, topology, {.schedule = plan.schedule}).value();
      PreparedProgram prepared = prepare(program, cache, {});
      Recording recording = record(prepared, topology, {});
      for (int change = 0; change < 4; ++change) {
        auto mappings = with_other_mapping(plan.pcg, plan.mappings, static_cast<int>(topology.device_count()), random);
        Result<Program> changed = lower(plan.pcg, mappings, topology, {.schedule = plan.schedule});
        if (!changed.ok()) continue;
        check_same(prepare(*changed, cache, {}), recording, topology);
      }
      PreparedProgram slower = prepared;
      for (std::size_t t = 0; t < slower.times.size(); ++t)
        if (program.tasks[t].kind == TaskKind::update) slower.times[t].alone.count *= 2;
      check_same(slower, recording, topology);
      FoldedProgram folded(prepared, topology), slower_folded(slower, topology);
      check_same(slower_folded.prepared(), record(folded.prepared(), topology, {}), topology);
    }
  }
}
