// Every schedule trains like one device: pipelines and random plans with micro-batches, under random orders, buckets
// and rematerialisation, run by the executor in f64 and f32.

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/plan/pipeline_order.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

struct Reference {
  ModelSpec spec;
  Pcg serial;
  std::map<std::string, HostTensor> inputs;
  Run exact, rounded;
  std::map<std::string, double> scale;

  Reference(const ModelSpec& model, Pcg pcg)
      : spec(model), serial(std::move(pcg)), inputs(random_inputs(serial, seed_of_run())) {
    Program program = lower(serial, std::vector<MachineMapping>(serial.size()), uniform_topology(1)).value();
    exact = run(program, inputs, Precision::f64), rounded = run(program, inputs, Precision::f32);
    scale = scales(exact);
  }
  Reference(const std::string& name, std::int64_t batch)
      : Reference(ModelSpec{name, {{"batch", batch}}}, build_model({name, {{"batch", batch}}})) {}
  void require_equal(const Program& program) const {
    REQUIRE(distance(run(program, inputs, Precision::f64), exact, scale) <= 1e-12);
    REQUIRE(distance(run(program, inputs, Precision::f32), rounded, scale) <= 1e-5);
  }
};

// After a step with momentum: what a difference of one bit in any gradient would show in.
std::map<std::string, std::vector<double>> states_after(const Plan& plan, Schedule schedule,
                                                        const Reference& reference) {
  Program program =
      lower(plan.pcg, plan.mappings, uniform_topology(plan.devices), {true, plan.optimizer, schedule}).value();
  std::map<std::string, std::vector<double>> states;
  for (const auto& [name, value] : run(program, reference.inputs, Precision::f32).states) states[name] = value.reals;
  return states;
}

Result<Plan> pipeline(const Reference& reference, int devices, int stages, int parts, int micros, PipelineOrder order) {
  SimulatedCostModel cost(uniform_topology(devices));
  SearchOptions options;
  options.strategy = "pipeline";
  options.optimizer = parse_optimizer("sgd 0.1 momentum=0.9");
  options.stages = stages, options.parts = parts, options.micro_batches = micros;
  options.schedule.order = order;
  return find_plan(reference.spec, reference.serial, cost, options);
}

Schedule random_schedule(std::mt19937_64& random) {
  Schedule s;
  s.order = static_cast<PipelineOrder>(random() % 4);
  s.overlap = static_cast<int>(random() % 4);
  s.bucket = {static_cast<std::int64_t>(std::vector<int>{0, 1, 1000, 1 << 30}[random() % 4])};
  if (random() % 2) s.remat = {"all"};
  s.offload = static_cast<Offload>(random() % 4);
  s.zero_stage = static_cast<int>(random() % 4);
  s.fuse = static_cast<Fuse>(random() % 2);
  return s;
}

}  // namespace

TEST_CASE("pipelines of every order equal one device") {
  for (const std::string& name : {std::string("mlp-tiny"), std::string("bert-tiny")}) {
    Reference reference(name, 24);
    for (auto [devices, stages, parts, micros] :
         {std::array{1, 1, 1, 4}, {2, 2, 1, 4}, {4, 4, 1, 6}, {4, 2, 1, 4}, {2, 2, 2, 4}, {6, 3, 1, 4}, {4, 2, 2, 2}})
      for (PipelineOrder order :
           {PipelineOrder::gpipe, PipelineOrder::one_f_one_b, PipelineOrder::interleaved, PipelineOrder::zero_bubble}) {
        if (parts > 1 && (order == PipelineOrder::one_f_one_b || order == PipelineOrder::zero_bubble)) continue;
        INFO(name << ": " << stages << " stages of " << parts << " parts on " << devices << " devices, " << micros
                  << " micro-batches, " << to_string(order));
        Plan plan = pipeline(reference, devices, stages, parts, micros, order).value();
        Program program =
            lower(plan.pcg, plan.mappings, uniform_topology(devices), {true, plan.optimizer, plan.schedule}).value();
        PipelineStages found = find_stages(program);
        CHECK(found.groups.size() == static_cast<std::size_t>(stages));
        CHECK(found.chain.size() == static_cast<std::size_t>(stages * (stages > 1 ? parts : 1)));
        CHECK(found.micro_batches == micros);
        reference.require_equal(program);
      }
  }
}

TEST_CASE("dropout draws the same masks again, and batch norm waits for all micro-batches") {
  Builder b("dropout");
  ValueRef h = b.input("x", {24, 16});
  for (int i = 0; i < 4; ++i) {
    Builder::Scope scope(b, "layer." + std::to_string(i));
    h = b.apply("relu", {}, {b.apply("matmul", {}, {h, b.weight("w", {16, 16})}, "matmul")}, "relu");
    h = b.dropout(0.25, h);
  }
  Pcg dropout = std::move(b).finish({b.apply("cross_entropy", {}, {h, b.input("labels", {24}, DType::i32)})});
  ModelSpec resnext{"resnext-50",
                    {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}};
  for (const Reference& reference :
       {Reference(ModelSpec{"dropout", {}}, dropout), Reference(resnext, build_model(resnext))})
    for (PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble})
      for (const char* remat : {"none", "all"}) {
        INFO(reference.spec.name << ", " << to_string(order) << ", " << remat);
        Plan plan = pipeline(reference, 4, 2, 1, 3, order).value();
        plan.schedule.remat = parse_remat(remat, "test");
        reference.require_equal(
            lower(plan.pcg, plan.mappings, uniform_topology(4), {true, plan.optimizer, plan.schedule}).value());
      }
}

TEST_CASE("random plans with micro-batches and random schedules equal one device") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  int done = 0, refused = 0;
  for (const std::string& name : {std::string("mlp-tiny"), std::string("bert-tiny")}) {
    Reference reference(name, 24);
    for (int tried = 0; tried < 40; ++tried) {
      int devices = 1 + static_cast<int>(random() % 6);
      Topology topology = uniform_topology(devices);
      State state = random_state(reference.serial, devices, random);
      auto pcg = with_micro_batches(state.pcg, std::vector<int>{1, 2, 4}[random() % 3]);
      if (!pcg.ok()) continue;
      Schedule schedule = random_schedule(random);
      auto program = lower(*pcg, random_mappings(*pcg, topology, random), topology, {true, {}, schedule});
      refused += !program.ok();
      if (!program.ok()) continue;
      INFO(name << " on " << devices << " devices, " << in_words(schedule) << "\n" << print(*pcg));
      check_program(*program).value();
      reference.require_equal(*program);
      ++done;
    }
  }
  CHECK(done >= 40);
  INFO(refused << " refused");
}

TEST_CASE("operators that take the batch whole beside those that take micro-batches train like one device") {
  std::mt19937_64 random(seed_of_run());
  INFO("UNITY_TEST_SEED=" << seed_of_run());
  int done = 0, mixed = 0;
  const ModelSpec dlrm{"dlrm", {{"batch", 24}, {"hidden", 16}, {"width", 4}, {"rows", 10}}};
  for (const Reference& reference :
       {Reference("mlp-tiny", 24), Reference("bert-tiny", 24), Reference(dlrm, build_model(dlrm))})
    for (int tried = 0; tried < 30; ++tried) {
      const int devices = 1 + static_cast<int>(random() % 4);
      Topology topology = uniform_topology(devices);
      State state = random_state(reference.serial, devices, random);
      // Beginnings, ends, lookups, or any.
      std::vector<bool> whole(state.pcg.size(), false);
      const std::size_t kind = random() % 4, at = random() % whole.size();
      for (std::size_t i = 0; i < whole.size(); ++i)
        whole[i] = kind == 0 ? i < at : kind == 1 ? i > at : random() % 3 == 0;
      if (kind == 2) whole = lookups(state.pcg);
      auto pcg = with_micro_batches(state.pcg, std::vector<int>{2, 3, 4}[random() % 3], whole);
      if (!pcg.ok()) continue;
      Schedule schedule = random_schedule(random);
      auto program = lower(*pcg, random_mappings(*pcg, topology, random), topology, {true, {}, schedule});
      if (!program.ok()) continue;
      INFO(reference.spec.name << " on " << devices << " devices, " << in_words(schedule) << "\n" << print(*pcg));
      check_program(*program).value();
      reference.require_equal(*program);
      ++done;
      for (const Node& n : pcg->nodes())
        if (n.is_compute() && micro_count(node_sharding(*pcg, NodeId(&n - pcg->nodes().data()))) == 1) {
          ++mixed;
          break;
        }
    }
  CHECK(done >= 40);
  CHECK(mixed >= 20);
}

TEST_CASE("weights stored in parts train like one device in every stage of ZeRO") {
  for (const std::string& name : {std::string("mlp-tiny"), std::string("bert-tiny")}) {
    Reference reference(name, 24);
    for (int micro_batches : {1, 2, 4}) {
      Pcg pcg = with_stored_parts(shard_batch({normalize(reference.serial), {}, {}}, 3).value().pcg).value();
      if (micro_batches > 1) pcg = with_micro_batches(pcg, micro_batches).value();
      for (int stage : {1, 2, 3})
        for (const char* remat : {"none", "all"})
          for (auto [order, overlap] : {std::pair{PipelineOrder::gpipe, 0},
                                        {PipelineOrder::one_f_one_b, 0},
                                        {PipelineOrder::one_f_one_b, 2},
                                        {PipelineOrder::zero_bubble, 1}}) {
            Schedule schedule{.order = order, .overlap = overlap, .bucket = {1000}};
            schedule.remat = parse_remat(remat, "test"), schedule.zero_stage = stage;
            INFO(name << ", " << micro_batches << " micro-batches, " << in_words(schedule));
            reference.require_equal(
                lower(pcg, natural_mappings(pcg), uniform_topology(3), {true, {}, schedule}).value());
          }
    }
  }
}

TEST_CASE("buckets, rematerialisation and offload keep every bit of a step on 3 devices of each stage") {
  Reference reference("bert-tiny", 24);
  Plan plan = pipeline(reference, 6, 2, 1, 4, PipelineOrder::one_f_one_b).value();
  auto plain = states_after(plan, plan.schedule, reference);
  for (std::int64_t bytes : {std::int64_t{1000}, std::int64_t{1} << 30})
    for (const char* remat : {"none", "blocks", "all"}) {
      INFO(bytes << " bytes, " << remat);
      Schedule schedule = plan.schedule;
      schedule.bucket = {bytes};
      schedule.remat = parse_remat(remat, "test");
      CHECK(states_after(plan, schedule, reference) == plain);
      for (Offload what : {Offload::activations, Offload::optimizer, Offload::activations_and_optimizer}) {
        schedule.offload = what;
        CHECK(states_after(plan, schedule, reference) == plain);
      }
    }
}
