// Chains of element-wise operators as one task: what joins, what does not, and what a chain then costs.
#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/ops/chain.h"
#include "core/plan/fuse_chains.h"
#include "core/plan/lower.h"
#include "core/plan/memory_plan.h"
#include "core/plan/task_key.h"
#include "simulator/simulate.h"
#include "tests/support/runtime_program.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

constexpr std::int64_t kRows = 8, kColumns = 6;
constexpr double kWhole = 4.0 * kRows * kColumns;  // bytes

// Tasks by hand on device 0, each after those that wrote what it reads.
struct ByHand : ProgramByHand {
  std::map<BufferId, TaskId> writers;

  BufferId block(const Dims& dims = {kRows, kColumns}, int device = 0) {
    return buffer(tensor("t", dims), device, whole_box(dims));
  }
  BufferId apply(const std::string& op, const std::vector<BufferId>& inputs, const Attributes& attributes = {}) {
    return into(block(), op, inputs, attributes);
  }
  BufferId into(BufferId result, const std::string& op, const std::vector<BufferId>& inputs,
                const Attributes& attributes = {}) {
    std::vector<TaskId> after;
    for (BufferId b : inputs)
      if (auto writer = writers.find(b); writer != writers.end()) after.push_back(writer->second);
    std::vector<BufferId> operands = inputs;
    operands.push_back(result);
    writers[result] = compute(op, attributes, operands, after);
    return result;
  }
  // The names of the tasks' operators, in order.
  std::vector<std::string> fused() {
    std::vector<PooledTask> pool = take_tasks(program);
    if (fuse_chains(program, pool)) put_tasks(program, pool);
    check_program(program).value();
    std::vector<std::string> names;
    for (const Task& t : program.tasks)
      names.push_back(t.kind == TaskKind::compute ? program.ops[static_cast<std::size_t>(t.op)].op->name()
                                                  : std::string(to_string(t.kind)));
    return names;
  }
};

using Names = std::vector<std::string>;

// Three layers with a bias and gelu on one device.
Program layers(Fuse fuse) {
  Builder b("layers");
  ValueRef x = b.input("x", {64, 32});
  for (int i = 0; i < 3; ++i) {
    Builder::Scope scope(b, "layer." + std::to_string(i));
    x = b.apply("matmul", {}, {x, b.weight("w", {32, 32})}, "matmul");
    x = b.apply("gelu", {}, {b.apply("add", {}, {x, b.weight("b", {32}, "zeros")}, "add_bias")}, "gelu");
  }
  Pcg pcg = std::move(b).finish({b.apply("mean_squared_error", {}, {x, b.input("t", {64, 32})}, "loss")});
  return lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1), {.schedule = {.fuse = fuse}}).value();
}

Names operators(const Program& program, Phase phase) {
  Names names;
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::compute && t.phase == phase)
      names.push_back(program.ops[static_cast<std::size_t>(t.op)].op->name());
  return names;
}

}  // namespace

TEST_CASE("operators that each read what the one before wrote are one task, which keeps the last result") {
  ByHand b;
  BufferId x = b.block(), bias = b.block({kColumns}), other = b.block();
  BufferId y = b.apply("relu", {b.apply("add", {x, bias})});
  BufferId z = b.apply("mul", {y, other});
  CHECK(b.fused() == Names{"add+relu+mul"});
  const Task& task = b.program.tasks[0];
  auto operands = b.program.operands_of(task);
  CHECK(std::vector<BufferId>(operands.begin(), operands.end()) == std::vector<BufferId>{x, bias, other, z});
  // x and the other operand are read whole, the bias is one row, and one result is written.
  CHECK(task.bytes == 3 * kWhole + 4 * kColumns);
  CHECK(task_key(b.program, task) ==
        "add(0, 1) + relu(.) + mul(., 2) -> 3 of (f32[8, 6], f32[6], f32[8, 6]) -> f32[8, 6]");
}

TEST_CASE("a value that another reads is kept, and so is one that a later step reads") {
  ByHand b;
  BufferId x = b.block();
  BufferId y = b.apply("scale", {x}, {2.0}), s = b.apply("sigmoid", {y}), z = b.apply("mul", {y, s});
  CHECK(b.fused() == Names{"scale+sigmoid+mul"});
  auto operands = b.program.operands_of(b.program.tasks[0]);
  CHECK(std::vector<BufferId>(operands.begin(), operands.end()) == std::vector<BufferId>{x, y, z});
  CHECK(b.program.ops.back().chain->text() == "scale{2.0}(0) -> 1 + sigmoid(.) + mul(1, .) -> 2");

  ByHand saved;
  BufferId v = saved.apply("add", {saved.block(), saved.block()});
  BufferId w = saved.apply("gelu", {v});
  saved.apply("softmax", {w});
  saved.apply("gelu_gradient", {v, w});  // reads v and w later
  CHECK(saved.fused() == Names{"add+gelu", "softmax", "gelu_gradient"});
  auto kept = saved.program.operands_of(saved.program.tasks[0]);
  CHECK(std::vector<BufferId>(kept.begin() + 2, kept.end()) == std::vector<BufferId>{v, w});
}

TEST_CASE("a product of matrices leads a chain; its FLOPs are in the sum") {
  ByHand b;
  BufferId x = b.block({kRows, 4}), w = b.block({4, kColumns}), bias = b.block({kColumns});
  BufferId y = b.apply("matmul", {x, w}, {std::string("none"), std::int64_t{0}});
  b.apply("relu", {b.apply("add", {y, bias})});
  for (Task& t : b.program.tasks) t.flops = 10;
  CHECK(b.fused() == Names{"matmul+add+relu"});
  CHECK(b.program.tasks[0].flops == 30);
  CHECK(b.program.tasks[0].bytes == 4 * (8 * 4 + 4 * 6 + 6) + kWhole);
}

TEST_CASE("what an operator between makes of a member's result keeps the two apart") {
  ByHand b;
  BufferId y = b.apply("relu", {b.block()});
  BufferId s = b.apply("softmax", {y});
  b.apply("mul", {y, s});
  CHECK(b.fused() == Names{"relu", "softmax", "mul"});
}

TEST_CASE("what stands between and has nothing to do with the chain comes before it") {
  ByHand b;
  BufferId x = b.block(), y = b.apply("relu", {x});
  BufferId s = b.apply("softmax", {x});
  b.apply("mul", {y, s});
  CHECK(b.fused() == Names{"softmax", "relu+mul"});
}

TEST_CASE("what stands between and writes what a member reads stays behind it") {
  ByHand b;
  BufferId x = b.block(), y = b.apply("relu", {x});
  b.update({x, b.block()}, {});  // on the same stream, so behind relu without a dependency
  b.apply("tanh", {y});
  CHECK(b.fused() == Names{"relu", "update", "tanh"});
}

TEST_CASE("results of other boxes, tensors, devices, streams, phases and micro-batches are of other tasks") {
  {
    ByHand b;  // the second result is larger
    BufferId row = b.into(b.block({kColumns}), "relu", {b.block({kColumns})});
    b.apply("add", {row, b.block()});
    CHECK(b.fused() == Names{"relu", "add"});
  }
  {
    ByHand b;  // the same block of a larger tensor
    BufferId y = b.apply("relu", {b.block()});
    BufferId part = b.buffer(b.tensor("t", {2 * kRows, kColumns}), 0, whole_box({kRows, kColumns}));
    b.into(part, "tanh", {y});
    CHECK(b.fused() == Names{"relu", "tanh"});
  }
  auto stay_apart = [](auto change) {
    ByHand b;
    b.apply("tanh", {b.apply("relu", {b.block()})});
    change(b.program.tasks[1]);
    std::vector<PooledTask> pool = take_tasks(b.program);
    return !fuse_chains(b.program, pool);
  };
  CHECK(!stay_apart([](Task&) {}));
  CHECK(stay_apart([](Task& t) { t.device = DeviceId(1); }));
  CHECK(stay_apart([](Task& t) { t.stream = Stream::copy; }));
  CHECK(stay_apart([](Task& t) { t.phase = Phase::backward; }));
  CHECK(stay_apart([](Task& t) { t.micro = 1; }));
  CHECK(stay_apart([](Task& t) { t.iteration = 1; }));
}

TEST_CASE("a chain waits for no communication that its first task does not wait for, and holds none up") {
  auto program = [](bool first_waits) {
    ByHand b;
    BufferId there = b.block({kRows, kColumns}, 1), here = b.block();
    Communication c;
    Box box = whole_box({kRows, kColumns});
    c.participants = {{DeviceId(1), there, {}, box}, {DeviceId(0), {}, here, box}};
    TaskId arrives = b.communicate(c, {});
    b.writers[here] = arrives;
    BufferId y = first_waits ? b.apply("relu", {here}) : b.apply("relu", {b.block()});
    b.apply("add", {y, here});
    return b.fused();
  };
  CHECK(program(false) == Names{"communicate", "relu", "add"});
  CHECK(program(true) == Names{"communicate", "relu+add"});

  ByHand b;
  BufferId y = b.apply("relu", {b.block()}), there = b.block({kRows, kColumns}, 1);
  b.apply("tanh", {y});
  Communication c;
  Box box = whole_box({kRows, kColumns});
  c.participants = {{DeviceId(0), y, {}, box}, {DeviceId(1), {}, there, box}};
  b.communicate(c, {b.writers[y]});
  CHECK(b.fused() == Names{"relu", "tanh", "communicate"});
}

TEST_CASE("outputs of the program are kept, and a chain is no longer than its limit") {
  ByHand b;
  BufferId y = b.apply("relu", {b.block()}), z = b.apply("tanh", {y});
  b.program.outputs.push_back({"y", {kRows, kColumns}, {y}});
  b.fused();
  CHECK(b.program.operands_of(b.program.tasks[0]).size() == 3);
  CHECK(b.program.operands_of(b.program.tasks[0])[2] == z);

  ByHand many;
  BufferId x = many.block();
  for (std::size_t i = 0; i < Chain::kMostSteps + 3; ++i) x = many.apply("tanh", {x});
  many.fused();
  REQUIRE(many.program.tasks.size() == 2);
  CHECK(many.program.ops.back().chain->steps().size() == 3);

  ByHand wide;
  BufferId sum = wide.block();
  for (std::size_t i = 0; i + 1 < Chain::kMostOperands; ++i) sum = wide.apply("add", {sum, wide.block()});
  wide.fused();  // with the sum so far, and the result, one operand too many for all of them
  CHECK(wide.program.tasks.size() == 2);
  for (const Task& t : wide.program.tasks) CHECK(wide.program.operands_of(t).size() <= Chain::kMostOperands);
}

TEST_CASE("layers with bias and gelu are a task each, and their gradients by gelu are one with the product before") {
  Program program = layers(Fuse::chains);
  CHECK(operators(program, Phase::forward) ==
        Names{"matmul+add+gelu", "matmul+add+gelu", "matmul+add+gelu", "mean_squared_error"});
  Names backward = operators(program, Phase::backward);
  CHECK(std::count(backward.begin(), backward.end(), "matmul+gelu_gradient") == 2);
  CHECK(std::count(backward.begin(), backward.end(), "gelu_gradient") == 1);
  // Two products of 64 x 32 and 32 x 32 and the bias are read; what gelu's gradient needs, and gelu, are written.
  CHECK(program.tasks[0].bytes == 4.0 * (64 * 32 + 32 * 32 + 32 + 2 * 64 * 32));
  CHECK(program.task_name(TaskId(0)) == "matmul+add+gelu layer.0.matmul");
  CHECK(task_groups(program)[0] == "forward matmul+add+gelu");
}

TEST_CASE("a chain takes the time of the bytes that are left, and less memory") {
  Program apart = layers(Fuse::none), fused = layers(Fuse::chains);
  Topology machine = uniform_topology(1);
  for (DeviceSpec& spec : machine.specs) {
    spec.memory_bandwidth = {1e9};
    spec.memory_efficiency.clear();
    spec.peak.at(DType::f32) = {1e18};
    spec.launch_overhead = {};
    spec.elementwise_peak = {};
  }
  // In each of three layers the product and the sum with the bias are not read again, and the product is not written,
  // 3 blocks of 8 KB; in the backward pass, before two of them, a product is neither written nor read.
  double saved = 4 * 64 * 32 * (3 * 3 + 2 * 2);
  CHECK((simulate(apart, machine).iteration - simulate(fused, machine).iteration).seconds() ==
        Approx(saved / 1e9).epsilon(1e-6));
  // So five blocks fewer have a place.
  auto places = [](const Program& program) {
    return plan_memory(program, MemoryOptions{.share = false}).arenas[0].count;
  };
  CHECK(places(apart) - places(fused) == 5 * 4 * 64 * 32);
  CHECK(plan_memory(fused).arenas[0] <= plan_memory(apart).arenas[0]);
}

TEST_CASE("what lies between the steps of a chain takes no memory") {
  auto blocks = [](bool fuse) {
    ByHand b;
    auto block = [&] { return b.block({16, 16}); };
    b.into(block(), "tanh", {b.into(block(), "relu", {block()})});
    if (fuse) b.fused();
    return plan_memory(b.program).arenas[0].count / (4 * 16 * 16);
  };
  CHECK(blocks(false) == 3);  // the result can not take the place of what it is computed from
  CHECK(blocks(true) == 2);
}

TEST_CASE("operators listed as element-wise walk each dimension of the result alike, or not at all") {
  for (const Operator* op : all_operators()) {
    if (!is_elementwise(*op)) continue;
    for (const Example& example : op->examples()) {
      INFO(op->name());
      Attributes attributes = complete_attributes(op->name(), op->attributes(), example.attributes).value();
      AxisTable table = op->axes(attributes, example.inputs).value();
      REQUIRE(table.outputs.size() == 1);
      const auto& result = table.outputs[0].dims;
      for (const Axis& axis : table.axes) CHECK(axis.role == AxisRole::parallel);
      for (std::size_t d = 0; d < result.size(); ++d) CHECK(result[d].axes == std::vector<int>{static_cast<int>(d)});
      for (const OperandAxes& in : table.inputs) {
        CHECK(!in.shape_only);
        for (std::size_t d = 0; d < in.dims.size(); ++d) {
          CHECK(!in.dims[d].window);
          if (!in.dims[d].axes.empty()) CHECK(in.dims[d].axes == result[result.size() - in.dims.size() + d].axes);
        }
      }
    }
  }
}

TEST_CASE("a plan keeps what it fuses, and words say so") {
  CHECK(parse_fuse("chains", "--fuse") == Fuse::chains);
  CHECK(to_string(Fuse::none) == "none");
  CHECK_THROWS_WITH(parse_fuse("all", "--fuse"), "--fuse: found 'all', expected none or chains");
  CHECK(in_words({.fuse = Fuse::chains}) == "gpipe, a collective for each gradient, element-wise operators in chains");
}
