// Tasks around communications: pairs of products, the first by columns, the second by rows, whose sums all devices wait
// for in the forward pass; so they do in the backward pass for the gradient of what goes into the first.

#include <set>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/plan/lower.h"
#include "core/plan/overlap.h"
#include "core/search/pipeline_stages.h"
#include "simulator/simulate.h"
#include "tests/support/plan_builder.h"
#include "tests/support/simulator_build.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

constexpr int kPairs = 3, kSamples = 384, kWidth = 256;

Pcg pairs(int micro_batches) {
  Builder b("pairs");
  ValueRef h = replicate(b, 2, b.input("x", {kSamples, kWidth}));
  for (int i = 0; i < kPairs; ++i) {
    Builder::Scope scope(b, std::to_string(i));
    ValueRef columns = partition(b, 1, 2, b.weight("u", {kWidth, kWidth}));
    ValueRef rows = partition(b, 0, 2, b.weight("v", {kWidth, kWidth}));
    h = b.apply("matmul", {}, {b.apply("matmul", {}, {h, columns}, "a"), rows}, "b");
    h = replicate(b, 2, reduce(b, 2, h));
  }
  ValueRef loss = b.apply("cross_entropy", {}, {h, replicate(b, 2, b.input("labels", {kSamples}, DType::i32))});
  Pcg pcg = std::move(b).finish({loss});
  return micro_batches > 1 ? with_micro_batches(pcg, micro_batches).value() : pcg;
}

Program lowered(int micro_batches, int overlap) {
  Pcg pcg = pairs(micro_batches);
  return lower(pcg, natural_mappings(pcg), uniform_topology(2), {.schedule = {.overlap = overlap}}).value();
}

// "a0 b0 | a0 b0": the products of device 0 in a phase, without the pair's number, with that of the micro-batch; "w":
// of a weight's gradient. "|": what comes next is the first to wait for a communication.
std::string products(const Program& program, Phase phase) {
  std::string text;
  std::set<TaskId> awaited;
  for (const Task& t : program.tasks) {
    if (t.device.value != 0 || t.kind != TaskKind::compute || t.phase != phase) continue;
    const ProgramOp& op = program.ops[static_cast<std::size_t>(t.op)];
    if (!op.op->name().starts_with("matmul")) continue;
    bool waits = false;
    for (TaskId d : program.dependencies_of(t))
      if (const Task& before = program.tasks[d.index()];
          before.kind == TaskKind::communicate && before.phase == phase && awaited.insert(d).second)
        waits = true;
    if (!text.empty()) text += waits ? " | " : " ";
    text += op.op->name() == "matmul" ? std::string(1, op.name.back()) : "w";
    text += std::to_string(t.micro);
  }
  return text;
}

double microseconds(const Program& program, double gigabytes_per_second) {
  return simulate(program, all_pairs(2, gigabytes_per_second)).iteration.seconds() * 1e6;
}

}  // namespace

TEST_CASE("gradients of weights come while the gradient of what goes in is summed") {
  CHECK(products(lowered(1, 0), Phase::backward) == "b0 w0 a0 w0 | b0 w0 a0 w0 | b0 w0 w0");
  CHECK(products(lowered(1, 1), Phase::backward) == "b0 a0 w0 w0 | b0 a0 w0 w0 | b0 w0 w0");
  CHECK(products(lowered(1, 1), Phase::forward) == "a0 b0 | a0 b0 | a0 b0");
}

TEST_CASE("micro-batches that are taken at once come one after the other between communications") {
  CHECK(products(lowered(2, 0), Phase::forward) == "a0 b0 | a0 b0 | a0 b0 a1 b1 | a1 b1 | a1 b1");
  CHECK(products(lowered(2, 2), Phase::forward) == "a0 b0 a1 b1 | a0 b0 | a1 b1 | a0 b0 | a1 b1");
  CHECK(products(lowered(2, 3), Phase::forward) == products(lowered(2, 2), Phase::forward));
  CHECK(products(lowered(2, 2), Phase::backward) ==
        "b0 a0 w0 w0 | b1 a1 w1 w1 | b0 a0 w0 w0 | b1 a1 w1 w1 | b0 w0 w0 | b1 w1 w1");
  // Two of four at once: the passes of the first two, then those of the others.
  CHECK(products(lowered(4, 2), Phase::forward) ==
        "a0 b0 a1 b1 | a0 b0 | a1 b1 | a0 b0 | a1 b1 a2 b2 a3 b3 | a2 b2 | a3 b3 | a2 b2 | a3 b3");
  CHECK(products(lowered(4, 2), Phase::backward) ==
        "b0 a0 w0 w0 | b1 a1 w1 w1 | b0 a0 w0 w0 | b1 a1 w1 w1 | b0 w0 w0 | b1 w1 w1 | "
        "b2 a2 w2 w2 | b3 a3 w3 w3 | b2 a2 w2 w2 | b3 a3 w3 w3 | b2 w2 w2 | b3 w3 w3");
}

TEST_CASE("what is communicated is hidden") {
  // Sums over links of 50 GB/s take less time than the products of another micro-batch.
  for (int micros : {2, 3, 4}) {
    CAPTURE(micros);
    const double free = microseconds(lowered(micros, 0), 1e6);
    const double exposed = microseconds(lowered(micros, 0), 50) - free;
    const double hidden = microseconds(lowered(micros, micros), 50) - free;
    CHECK(exposed > 20);
    CHECK(hidden < 0.4 * exposed);
  }
}

TEST_CASE(
    "gradients of weights come behind what a device passes on, by a send or an all-to-all, however long they take") {
  using enum CollectiveKind;
  for (CollectiveKind kind : {send, all_to_all, all_gather}) {
    CAPTURE(to_string(kind));
    // Device 0 computes the gradients of two weights and of what goes in, which device 1 gets; device 1 sends nothing.
    ProgramBuilder b(2);
    const TaskId first = b.compute(0, 1000), second = b.compute(0, 1000), of_input = b.compute(0, 1);
    const TaskId passed =
        kind == all_to_all ? b.all_to_all({0, 1}, 10, {of_input}) : b.communicate(kind, {0, 1}, 10, {of_input});
    if (kind == all_to_all) b.program.communications[0].exchanges = {{0, 1, whole_box({10})}};
    const TaskId next = b.compute(1, 1, {passed});
    for (TaskId update : {b.compute(0, 1, {first, second}), b.compute(1, 1, {next})})
      b.program.tasks[update.index()].phase = Phase::update;
    for (TaskId t : {first, second, of_input, passed, next}) b.program.tasks[t.index()].phase = Phase::backward;
    for (TaskId t : {first, second, of_input, next}) {
      b.program.tasks[t.index()].kind = TaskKind::compute;
      b.program.tasks[t.index()].op = 0;
    }
    b.program.ops.push_back({&get_operator("relu"), {}, OriginId(0), "work", 0, {}});
    b.compute(1, 1, {next});
    const std::vector<PooledTask> pool = take_tasks(b.program);
    const std::vector<OverlapPlace> places = overlap_places(b.program, pool, 1);
    CHECK(places[second.index()].behind);
    CHECK(places[first.index()].behind == (kind != all_gather));  // of others, as much as hides them
    CHECK_FALSE(places[of_input.index()].behind);
  }
}
