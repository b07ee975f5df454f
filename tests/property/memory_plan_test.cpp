// Sharing memory between buffers changes no bit of what random plans compute, and keeps to what the simulator predicts.

#include "core/plan/memory_plan.h"

#include <catch2/catch.hpp>

#include "core/graph/evaluate.h"
#include "core/models/models.h"
#include "core/plan/buffer_order.h"
#include "core/plan/lower.h"
#include "runtime/data/dataset.h"
#include "runtime/executor.h"
#include "simulator/simulate.h"
#include "tests/support/random_plan.h"
#include "tests/support/seed.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

struct RandomProgram {
  Program program;
  std::map<std::string, std::int64_t> bounds;
  std::string story;
};

RandomProgram random_program(const std::string& model, std::mt19937_64& random, const OptimizerSpec& optimizer) {
  Pcg serial = build_model({model, {{"batch", 12}}});
  for (;;) {
    int devices = 1 + static_cast<int>(random() % 6);
    Topology topology = uniform_topology(devices);
    State state = random_state(serial, devices, random);
    LowerOptions options;
    options.optimizer = optimizer;
    options.schedule.fuse = random() % 2 ? Fuse::chains : Fuse::none;
    auto program = lower(state.pcg, random_mappings(state.pcg, topology, random), topology, options);
    if (!program.ok()) continue;
    std::string story = fmt::format("{} on {} devices, {}\n", model, devices, in_words(options.schedule));
    for (const DerivationStep& s : state.steps) story += fmt::format("{} {} at {}\n", s.rule, s.degree, s.where);
    std::map<std::string, std::int64_t> bounds;
    for (std::size_t i = 0; i < serial.size(); ++i)
      if (serial.nodes()[i].op->name() == "input" && serial.nodes()[i].outputs[0].dtype == DType::i32)
        bounds[serial.nodes()[i].name] = index_bound(serial, NodeId(static_cast<std::int64_t>(i)));
    return {std::move(*program), bounds, story};
  }
}

// Loss, weights and gradients after three steps.
std::vector<std::vector<double>> train(const RandomProgram& p, bool share, Precision precision) {
  Executor executor(p.program, {"cpu", precision, 7, 1, share});
  std::vector<std::vector<double>> values(1);
  for (int step = 0; step < 3; ++step) {
    for (const auto& [name, value] : synthetic_batch(executor.inputs(), p.bounds, 7, step))
      executor.set_input(name, value);
    values[0].push_back(executor.step().loss);
  }
  for (const std::string& name : executor.weight_names()) {
    values.push_back(executor.weight(name).reals);
    values.push_back(executor.gradient(name).reals);
  }
  return values;
}

}  // namespace

TEST_CASE("random plans give the same bits with and without buffers that share memory") {
  std::mt19937_64 random(seed_of_run());
  for (int i = 0; i < 40; ++i) {
    RandomProgram p = random_program(i % 2 ? "bert-tiny" : "mlp-tiny", random,
                                     {.name = i % 3 ? "adam" : "sgd", .learning_rate = 0.01});
    INFO("UNITY_TEST_SEED=" << seed_of_run() << "\n" << p.story);
    Precision precision = i % 4 ? Precision::f32 : Precision::f64;
    REQUIRE(train(p, true, precision) == train(p, false, precision));
  }
}

TEST_CASE("buffers that overlap are never in use at the same time, in whatever order streams proceed") {
  std::mt19937_64 random(seed_of_run());
  for (int i = 0; i < 20; ++i) {
    RandomProgram p = random_program(i % 2 ? "bert-tiny" : "mlp-tiny", random, {});
    MemoryPlan plan = plan_memory(p.program);
    const auto& tasks = p.program.tasks;
    // Plays the program with a random choice among the streams that can go on.
    std::vector<std::vector<std::size_t>> lanes(static_cast<std::size_t>(2 * p.program.devices));
    std::vector<int> parts(tasks.size());
    for (std::size_t t = 0; t < tasks.size(); ++t)
      for (DeviceId d : p.program.devices_of(TaskId(static_cast<std::int64_t>(t))))
        lanes[2 * d.index() + (tasks[t].kind == TaskKind::communicate)].push_back(t), ++parts[t];
    std::vector<std::size_t> next(lanes.size());
    // Who wrote each byte range last: a reader must find the tenant that it expects.
    std::map<std::pair<std::int64_t, std::int64_t>, BufferId> tenants;
    auto use = [&](BufferId b, bool reads) {
      std::int64_t begin = plan.offsets[b.index()], device = p.program.buffer(b).device.value;
      REQUIRE(begin >= 0);
      std::int64_t end = begin + p.program.bytes_of(b).count;
      REQUIRE(end <= plan.arenas[static_cast<std::size_t>(device)].count);
      for (std::int64_t at = begin; at < end; at += 64) {
        auto found = tenants.find({device, at});
        if (reads && found != tenants.end()) REQUIRE(found->second == b);
        tenants[{device, at}] = b;
      }
    };
    for (bool moved = true; moved;) {
      moved = false;
      std::vector<std::size_t> able;
      for (std::size_t l = 0; l < lanes.size(); ++l) {
        if (next[l] == lanes[l].size()) continue;
        bool ready = true;
        for (TaskId d : p.program.dependencies_of(tasks[lanes[l][next[l]]])) ready = ready && parts[d.index()] == 0;
        if (ready) able.push_back(l);
      }
      if (able.empty()) break;
      std::size_t lane = able[random() % able.size()], t = lanes[lane][next[lane]++];
      moved = true;
      const Task& task = tasks[t];
      if (task.kind == TaskKind::communicate) {
        const Communication& c = p.program.communications[static_cast<std::size_t>(task.op)];
        for (bool reads : {true, false})
          for (std::size_t part = 0; part < c.part_count(); ++part)
            for (const Participant& q : c.part(part)) {
              if (q.device.index() != lane / 2) continue;
              if (BufferId b = reads ? q.send : q.receive; b.valid()) use(b, reads);
            }
      } else {
        auto operands = p.program.operands_of(task);
        const ProgramOp* op =
            task.kind == TaskKind::compute ? &p.program.ops[static_cast<std::size_t>(task.op)] : nullptr;
        for (std::size_t k = 0; k < operands.size(); ++k) {
          bool input = op ? k < op->inputs : k == 0 && task.kind != TaskKind::zero;
          if (op && input && op->shape_only[k]) continue;
          use(operands[k], input || task.kind == TaskKind::accumulate || task.kind == TaskKind::update);
        }
      }
      --parts[t];
    }
    for (std::size_t l = 0; l < lanes.size(); ++l) REQUIRE(next[l] == lanes[l].size());
  }
}

TEST_CASE("what the executor takes is within 15% of the peak that the simulator predicts") {
  for (const char* model : {"mlp-tiny", "bert-tiny"})
    for (int devices : {1, 4}) {
      Pcg serial = build_model({model, {{"batch", 64}}});
      Topology topology = uniform_topology(devices);
      State state{normalize(serial), {}, {}};
      if (devices > 1) state = *apply_move(state, {Move::Kind::replicate_all, 0, 0, devices});
      std::vector<MachineMapping> where;
      for (std::size_t i = 0; i < state.pcg.size(); ++i)
        where.push_back(natural_mapping(node_grid(state.pcg, NodeId(static_cast<std::int64_t>(i))), 0));
      Program program = lower(state.pcg, where, topology).value();
      MemoryPlan plan = plan_memory(program), apart = plan_memory(program, MemoryOptions{.share = false});
      SimulationResult predicted = simulate(program, topology);
      for (std::size_t d = 0; d < plan.arenas.size(); ++d) {
        INFO(model << ", device " << d << " of " << devices << ": arena " << plan.arenas[d].count
                   << ", without sharing " << apart.arenas[d].count << ", predicted peak "
                   << predicted.peak_memory[d].count);
        CHECK(plan.arenas[d].count <= 1.15 * static_cast<double>(predicted.peak_memory[d].count));
        CHECK(plan.arenas[d] < apart.arenas[d]);
      }
    }
}
