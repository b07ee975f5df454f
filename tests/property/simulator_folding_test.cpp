// Folding changes no bit: every time, span and byte is that of the whole machine.
#include <catch2/catch.hpp>

#include "core/machine/profile.h"
#include "core/models/models.h"
#include "core/plan/collective_key.h"
#include "core/plan/lower.h"
#include "core/search/random_plan.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "simulator/folding/folded.h"
#include "tests/support/planned.h"
#include "tests/support/seed.h"

using namespace unity;
using test::seed_of_run;

namespace {

struct Machine {
  std::string name;
  int nodes;
};

// Four samples for each device.
Program planned(const std::string& model, const std::string& strategy, const Topology& topology) {
  return test::planned(model, static_cast<std::int64_t>(4 * topology.device_count()), strategy, topology);
}

void check_same(const SimulationResult& folded, const SimulationResult& whole) {
  CHECK(folded.iteration == whole.iteration);
  CHECK(folded.peak_memory == whole.peak_memory);
  CHECK(folded.memory_by_category == whole.memory_by_category);
  CHECK(folded.profiled_tasks == whole.profiled_tasks);
  CHECK(folded.estimated_tasks == whole.estimated_tasks);
  REQUIRE(folded.trace.spans.size() == whole.trace.spans.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < whole.trace.spans.size(); ++i) {
    const Span &a = folded.trace.spans[i], &b = whole.trace.spans[i];
    different +=
        a.task != b.task || a.device != b.device || a.start != b.start || a.end != b.end || a.stream != b.stream;
  }
  CHECK(different == 0);
  REQUIRE(folded.trace.memory.size() == whole.trace.memory.size());
  for (std::size_t i = 0; i < whole.trace.memory.size(); ++i) {
    const MemorySample &a = folded.trace.memory[i], &b = whole.trace.memory[i];
    different += a.device != b.device || a.category != b.category || a.time != b.time || a.used != b.used;
  }
  CHECK(different == 0);
  CHECK(folded.collectives.size() == whole.collectives.size());
}

// The number of devices simulated.
std::size_t check_folding(const Program& program, const Topology& topology) {
  CollectiveCache cache(topology);
  check_same(simulate(program, cache, {.fold = true}), simulate(program, cache, {}));
  PreparedProgram prepared = prepare(program, cache, {});
  return FoldedProgram(prepared, topology).representatives();
}

}  // namespace

TEST_CASE("plans of every strategy have the same times folded and whole") {
  for (const Machine& m : {Machine{"summit", 2}, {"dgx-a100", 2}, {"dgx-h100", 1}, {"dgx-v100", 1}}) {
    Topology topology = load_topology(m.name, {.nodes = m.nodes});
    for (const char* model : {"mlp-tiny", "bert-tiny"})
      for (const char* strategy : {"data-parallel", "expert", "unity"}) {
        INFO(model << " on " << m.name << " by " << strategy);
        Program program = planned(model, strategy, topology);
        CHECK(check_folding(program, topology) <= topology.device_count());
      }
  }
}

TEST_CASE("data parallelism on equal devices behind one switch is simulated on one device") {
  Topology topology = load_topology("dgx-a100", {.nodes = 1});
  CHECK(check_folding(planned("bert-tiny", "data-parallel", topology), topology) == 1);
}

TEST_CASE("measured collectives have the same times folded and whole, and fold as far") {
  for (const Machine& m : {Machine{"summit", 2}, {"dgx-a100", 2}, {"dgx-v100", 1}}) {
    Topology topology = load_topology(m.name, {.nodes = m.nodes});
    for (const char* strategy : {"data-parallel", "expert"}) {
      INFO(m.name << " by " << strategy);
      Program program = planned("bert-tiny", strategy, topology);
      std::size_t devices = check_folding(program, topology);
      // Every other name, at twice or half of what goes without saying.
      Topology measured = topology;
      DeviceProfile profile;
      profile.collectives = collectives_of(topology, "nccl", 1);
      CollectiveCache cache(topology);
      std::map<std::string, int> names;
      for (const Communication& c : program.communications) {
        CollectiveKey key = collective_key(c, topology);
        int number = names.try_emplace(key.name, static_cast<int>(names.size())).first->second;
        double seconds = cache.choose(c)->predicted().seconds() * (number % 4 == 0 ? 2 : 0.5);
        if (number % 2 == 0 && seconds > 0) profile.collectives->put(key.name, {key.bytes, seconds, seconds});
      }
      use_profile(measured, profile);
      CHECK(check_folding(program, measured) == devices);
      SimulationResult r = simulate(program, measured);
      CHECK(r.profiled_tasks > 0);
      CHECK(r.iteration != simulate(program, topology).iteration);
    }
  }
}

TEST_CASE("schedules have the same times folded and whole") {
  Topology topology = load_topology("dgx-a100", {.nodes = 2});
  ModelSpec spec{"bert-tiny", {{"batch", 64}}};
  SimulatedCostModel cost(topology);
  Pcg pcg = build_model(spec);
  Plan plan = find_plan(spec, pcg, cost, {.strategy = "data-parallel"}).value();
  LowerOptions options;
  options.schedule.bucket = {100'000};
  options.schedule.remat = {"blocks"};
  CHECK(check_folding(lower(plan.pcg, plan.mappings, topology, options).value(), topology) <= 8);
  options.schedule = {};
  options.schedule.offload = Offload::activations;
  CHECK(check_folding(lower(plan.pcg, plan.mappings, topology, options).value(), topology) <= 8);
  options.schedule = {.fuse = Fuse::chains};
  CHECK(check_folding(lower(plan.pcg, plan.mappings, topology, options).value(), topology) <= 8);
  plan = find_plan(spec, pcg, cost, {.strategy = "pipeline"}).value();
  for (PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble}) {
    INFO(to_string(order));
    options.schedule = plan.schedule;
    options.schedule.order = order;
    check_folding(lower(plan.pcg, plan.mappings, topology, options).value(), topology);
    options.schedule.overlap = 2;
    check_folding(lower(plan.pcg, plan.mappings, topology, options).value(), topology);
  }
}

TEST_CASE("copies to and from hosts over shared links have the same times folded and whole") {
  for (const Machine& m : {Machine{"summit", 2}, {"dgx-v100", 1}, {"pcie-host", 2}}) {
    INFO(m.name);
    Topology topology = load_topology(m.name, {.nodes = m.nodes});
    ModelSpec spec{"bert-tiny", {{"batch", static_cast<std::int64_t>(4 * topology.device_count())}}};
    SimulatedCostModel cost(topology);
    Plan plan = find_plan(spec, build_model(spec), cost, {.strategy = "data-parallel"}).value();
    LowerOptions options;
    options.optimizer = parse_optimizer("adam");
    options.schedule.offload = Offload::activations_and_optimizer;
    Program program = lower(plan.pcg, plan.mappings, topology, options).value();
    CHECK(check_folding(program, topology) < topology.device_count());
    CollectiveCache cache(topology);
    std::size_t copies = prepare(program, cache, {}).choices.size() - program.communications.size();
    CHECK(copies >= 4 * topology.device_count());  // of each device: two states out and back for one weight at least
  }
}

TEST_CASE("a slower link splits the classes, and nothing else changes") {
  Topology topology = load_topology("dgx-a100", {.nodes = 2});
  Program program = planned("bert-tiny", "data-parallel", topology);
  topology.links[3].bandwidth.rate /= 3;
  topology.finish();
  CHECK(check_folding(program, topology) >= 1);
}

TEST_CASE("a device of another kind has a class of its own") {
  Topology topology = load_topology("dgx-a100", {.nodes = 1});
  Program program = planned("bert-tiny", "data-parallel", topology);
  topology.specs.push_back(topology.specs[0]);
  topology.specs.back().memory_bandwidth.rate /= 2;
  topology.devices[5].spec = topology.specs.size() - 1;
  CHECK(check_folding(program, topology) == 2);
}

TEST_CASE("logical devices that share a physical one are not folded") {
  Topology topology = load_topology("laptop");
  CHECK(check_folding(planned("mlp-tiny", "data-parallel", topology), topology) == topology.device_count());
}

TEST_CASE("random plans and mappings have the same times folded and whole") {
  std::uint64_t seed = seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Topology summit = load_topology("summit", {.nodes = 2}), dgx = load_topology("dgx-a100", {.nodes = 2});
  int folded = 0;
  for (int i = 0; i < 60; ++i) {
    const Topology& topology = i % 2 ? summit : dgx;
    auto devices = static_cast<int>(topology.device_count());
    Pcg serial = build_model({i % 3 ? "mlp-tiny" : "bert-tiny", {{"batch", 48}}});
    State state = random_state(serial, devices, random);
    auto mappings = random_mappings(state.pcg, topology, random);
    Program program = lower(state.pcg, mappings, topology).value();
    INFO("plan " << i);
    folded += check_folding(program, topology) < topology.device_count();
  }
  CHECK(folded > 20);
}
