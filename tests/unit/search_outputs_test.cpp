// Models that return more than their loss: every plan returns what the model does, in its order.
#include <catch2/catch.hpp>

#include "core/graph/evaluate.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/plan_builder.h"

using namespace unity;
using namespace unity::test;

TEST_CASE("plans return what the model returns, in its order, and the first of it is the loss") {
  Builder b("several outputs");
  ValueRef x = b.input("x", {64, 128}), labels = b.input("labels", {64}, DType::i32), h = x;
  ValueRef early, late, weight;
  for (int i = 0; i < 14; ++i) {
    weight = b.weight(fmt::format("w{}", i), {128, 128});
    h = b.apply("gelu", {}, {b.apply("matmul", {}, {h, weight})});
    if (i == 3) early = b.apply("reduce_sum", {Dims{0, 1}}, {h});
    if (i == 9) late = h;
  }
  ValueRef logits = b.apply("matmul", {}, {h, b.weight("last", {128, 8})});
  ValueRef loss = b.apply("cross_entropy", {}, {logits, labels});
  const Pcg model = std::move(b).finish({loss, late, early, x, weight, logits});
  const EvaluateOptions exact{DType::mod, 7, 0};
  const std::vector<LogicalTensor> expected = evaluate_outputs(model, random_leaves(model, exact), exact);
  const SimulatedCostModel cost(load_topology("summit", {1, 4}));
  for (const char* strategy :
       {"unity", "pipeline", "alpa-like", "algebra-then-parallel", "flexflow", "deepspeed-zero"}) {
    INFO(strategy);
    SearchOptions options;
    options.strategy = strategy;
    options.budget = 200;
    options.seeds = false;
    const Plan plan = find_plan({"several outputs", {{"batch", 64}}}, model, cost, options).value();
    CHECK(evaluate_outputs(plan.pcg, random_leaves(plan.pcg, exact), exact) == expected);
    CHECK(plan.prediction.iteration >= plan.search.lower_bound);
  }
}
