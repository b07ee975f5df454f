#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/plan/lower.h"
#include "core/plan/memory_plan.h"
#include "core/plan/rematerialise.h"
#include "simulator/simulate.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// Three blocks of three functions of [16, 16], 1024 bytes each; a weight in front, so that gradients flow.
Pcg blocks() {
  Builder b("blocks");
  ValueRef h = b.apply("matmul", {}, {b.input("x", {16, 16}), b.weight("w", {16, 16})});
  for (int i = 0; i < 3; ++i) {
    Builder::Scope scope(b, "block." + std::to_string(i));
    for (int k = 0; k < 3; ++k) h = b.apply("sigmoid", {}, {h}, "f" + std::to_string(k));
  }
  return std::move(b).finish({b.apply("reduce_mean", {Dims{0, 1}}, {h})});
}

Result<Program> lowered(const Pcg& pcg, std::vector<std::string> remat) {
  return lower(pcg, natural_mappings(pcg), uniform_topology(1), {.schedule = {.remat = std::move(remat)}});
}

int count(const Program& program, const std::string& op, Phase phase) {
  int n = 0;
  for (const Task& t : program.tasks)
    n +=
        t.kind == TaskKind::compute && t.phase == phase && program.ops[static_cast<std::size_t>(t.op)].op->name() == op;
  return n;
}

}  // namespace

TEST_CASE("blocks are computed again but for their last result, which the next one keeps") {
  Program plain = lowered(blocks(), {}).value(), again = lowered(blocks(), {"blocks"}).value();
  CHECK(count(plain, "sigmoid", Phase::forward) == 9);
  CHECK(count(plain, "sigmoid", Phase::backward) == 0);
  CHECK(count(again, "sigmoid", Phase::forward) == 9);
  CHECK(count(again, "sigmoid", Phase::backward) == 6);  // two of three in each block
}

TEST_CASE("a block's interior leaves the peak of memory") {
  // sigmoid's gradient reads its result. At the turn, without: 9 results wait. With blocks: the last of each block (3);
  // the third block computes 2 again. x, w, and w's gradient come in both. The peaks differ by 9 - (3 + 2) = 4 results
  // of 1024 bytes: in both the turn has beside them the gradient that arrives and the one that leaves.
  Topology one = uniform_topology(1);
  auto peak = [&](const Program& p) { return simulate(p, one, {}).peak_memory[0].count; };
  std::int64_t plain = peak(lowered(blocks(), {}).value()), again = peak(lowered(blocks(), {"blocks"}).value());
  CHECK(plain - again == 4 * 1024);
  CHECK(plan_memory(lowered(blocks(), {}).value()).arenas[0].count -
            plan_memory(lowered(blocks(), {"blocks"}).value()).arenas[0].count ==
        4 * 1024);
}

TEST_CASE("operators are named by their label or what stands before a dot in it") {
  CHECK(count(lowered(blocks(), {"block.1.f0"}).value(), "sigmoid", Phase::backward) == 0);  // f1 uses it: kept
  CHECK(count(lowered(blocks(), {"block.1"}).value(), "sigmoid", Phase::backward) == 2);
  CHECK(count(lowered(blocks(), {"block.0", "block.2"}).value(), "sigmoid", Phase::backward) == 4);
  auto unknown = lowered(blocks(), {"block.7"});
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message.find("'block.7' names no operator of blocks") != std::string::npos);
}

TEST_CASE("all operators are cut into about sqrt(n) segments, of which the last is not computed again") {
  // 11 operators in segments of 4: matmul f0 f1 f2 | f0 f1 f2 f0 | f1 f2 mean. The last of each is kept; the gradient
  // of the matmul reads no result of its own. So f0 f1, then f0 f1 f2: 5 sigmoids.
  CHECK(count(lowered(blocks(), {"all"}).value(), "sigmoid", Phase::backward) == 5);
}

TEST_CASE("a model without repeated blocks says so") {
  Builder b("flat");
  ValueRef h = b.apply("matmul", {}, {b.input("x", {4, 4}), b.weight("w", {4, 4})});
  auto refused = lowered(std::move(b).finish({b.apply("reduce_mean", {Dims{0, 1}}, {h})}), {"blocks"});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("no operator of flat stands in a repeated block") != std::string::npos);
}
