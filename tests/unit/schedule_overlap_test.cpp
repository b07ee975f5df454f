// Tasks around communications: pairs of products, the first by columns, the second by rows, whose sums all devices wait
// for in the forward pass; so they do in the backward pass for the gradient of what goes into the first.

#include <set>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/plan/lower.h"
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
