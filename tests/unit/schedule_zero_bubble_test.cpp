#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// Six products of 16 x 16 weights, 24 samples, two products for each of three stages.
Pcg six_products() {
  Builder b("six");
  ValueRef h = b.input("x", {24, 16});
  for (int i = 0; i < 6; ++i)
    h = b.apply("matmul", {}, {h, b.weight(fmt::format("w{}", i), {16, 16})}, fmt::format("layer.{}", i));
  return std::move(b).finish({b.apply("cross_entropy", {}, {h, b.input("labels", {24}, DType::i32)})});
}

Program pipeline(const Pcg& model, int devices, int stages, int micros, PipelineOrder order) {
  SimulatedCostModel cost(uniform_topology(devices));
  SearchOptions options;
  options.strategy = "pipeline";
  options.stages = stages, options.micro_batches = micros;
  options.schedule.order = order;
  Plan plan = find_plan(ModelSpec{"six", {}}, model, cost, options).value();
  return lower(plan.pcg, plan.mappings, uniform_topology(devices), {true, plan.optimizer, plan.schedule}).value();
}

bool is_of_weights(const Program& program, const Task& t) {
  return t.kind == TaskKind::compute &&
         program.ops[static_cast<std::size_t>(t.op)].op->name().starts_with("matmul_weight_gradient");
}

// "F0 B0 W0 ..": what a device computes, tasks of one pass that follow each other as one.
std::string passes(const Program& program, int device) {
  std::string text, last;
  for (const Task& t : program.tasks) {
    if (t.kind != TaskKind::compute || t.device.value != device) continue;
    char letter = t.phase == Phase::forward ? 'F' : is_of_weights(program, t) ? 'W' : 'B';
    std::string pass = fmt::format("{}{}", letter, t.micro);
    if (pass != last) text += (text.empty() ? "" : " ") + pass;
    last = pass;
  }
  return text;
}

}  // namespace

TEST_CASE("on stage s of ZB-H1 gradients of weights come s backward passes later, the last operator by operator") {
  Program program = pipeline(six_products(), 3, 3, 4, PipelineOrder::zero_bubble);
  CHECK(passes(program, 0) == "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  CHECK(passes(program, 1) == "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3 W2 W3");
  CHECK(passes(program, 2) == "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3 W1 W2 W3");
}

TEST_CASE("where gradients of weights are summed, those left to the end hide the sums of operators before") {
  // Sums of 16 x 16 elements take longer than all gradients of 3 samples: as many passes as there are stages come
  // later.
  Program program = pipeline(six_products(), 4, 2, 4, PipelineOrder::zero_bubble);
  CHECK(passes(program, 0) == "F0 F1 B0 F2 B1 F3 B2 W0 B3 W1 W2 W3 W1 W2 W3 W1 W2 W3");
  // The first sum starts before the last operator's gradients are there.
  std::size_t first_sum = program.tasks.size(), last_gradient = 0;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& t = program.tasks[i];
    if (t.kind == TaskKind::communicate && t.device.value == 0 &&
        program.communications[static_cast<std::size_t>(t.op)].kind == CollectiveKind::all_reduce)
      first_sum = std::min(first_sum, i);
    if (t.device.value == 0 && is_of_weights(program, t)) last_gradient = i;
  }
  CHECK(first_sum < last_gradient);
}

TEST_CASE("stages wait less under ZB-H1 than under 1F1B, and that needs one part for each") {
  auto time = [](PipelineOrder order) {
    Pcg model = build_model({"mlp", {{"batch", 512}, {"layers", 8}, {"hidden", 1024}}});
    SimulatedCostModel cost(uniform_topology(4));
    return cost.score(pipeline(model, 4, 4, 8, order)).iteration.count;
  };
  CHECK(time(PipelineOrder::zero_bubble) < time(PipelineOrder::one_f_one_b));
  SimulatedCostModel cost(uniform_topology(2));
  SearchOptions options;
  options.strategy = "pipeline";
  options.stages = 2, options.parts = 2, options.micro_batches = 4;
  options.schedule.order = PipelineOrder::zero_bubble;
  auto refused = find_plan(ModelSpec{"six", {}}, six_products(), cost, options);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("zb-h1: a device holds 2 parts of the graph") != std::string::npos);
}

TEST_CASE("gradients of micro-batches are added up by the products that compute them") {
  for (PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_f_one_b, PipelineOrder::zero_bubble}) {
    INFO(to_string(order));
    Program program = pipeline(six_products(), 3, 3, 4, order);
    int adding = 0;
    double plain = 0;
    for (const Task& t : program.tasks) {
      CHECK(t.kind != TaskKind::accumulate);
      if (!is_of_weights(program, t)) continue;
      const ProgramOp& op = program.ops[static_cast<std::size_t>(t.op)];
      if (op.op->name() == "matmul_weight_gradient") {
        CHECK(t.micro == 0);
        plain = t.bytes;
        continue;
      }
      auto operands = program.operands_of(t);
      REQUIRE(operands.size() == 4);
      CHECK(operands[2] == operands[3]);
      CHECK(t.bytes == plain + 4 * 16 * 16);  // the sum is read
      ++adding;
    }
    CHECK(adding == 6 * 3);
  }
}

TEST_CASE("of a weight that is used twice, the second gradient is added to the first") {
  Builder b("tied");
  ValueRef w = b.weight("w", {8, 8}), x = b.input("x", {4, 8});
  ValueRef y = b.apply("matmul", {}, {b.apply("matmul", {}, {x, w}), w});
  Pcg model = std::move(b).finish({b.apply("cross_entropy", {}, {y, b.input("labels", {4}, DType::i32)})});
  Program program = lower(model, std::vector<MachineMapping>(model.size()), uniform_topology(1)).value();
  int adding = 0;
  for (const Task& t : program.tasks) {
    CHECK(t.kind != TaskKind::accumulate);
    adding += is_of_weights(program, t) && program.operands_of(t).size() == 4;
  }
  CHECK(adding == 1);
  std::vector<BufferId> made;
  for (const Task& t : program.tasks)
    if (is_of_weights(program, t)) made.push_back(program.operands_of(t).back());
  REQUIRE(made.size() == 2);
  CHECK(made[0] == made[1]);
}
