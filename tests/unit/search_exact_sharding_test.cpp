// Operators that are each split in a way of their own (core/search/exact_sharding.h).
#include <catch2/catch.hpp>

#include "core/graph/autodiff.h"
#include "core/models/models.h"
#include "core/search/exact_sharding.h"
#include "core/search/search.h"
#include "core/search/stage_moves.h"
#include "core/search/staged_plan.h"
#include "simulator/cost_model.h"

namespace unity {
namespace {

// Of a model split as a plan of the list says, what choose_shardings() counts, to be rounded operator by operator.
double time_of(const IntraCosts& costs, const IntraPlan& plan, int micro_batches, const Resources& devices) {
  const IntraCosts::Sums& sums = costs.sums(plan, micro_batches, devices);
  return sums.time.back() + (sums.sync.back() + sums.update.back()) / micro_batches;
}

}  // namespace

TEST_CASE("what is chosen for each operator takes no longer than any sharding of the whole model") {
  const ModelSpec spec = GENERATE(ModelSpec{"mlp-tiny", {{"batch", 48}}}, ModelSpec{"bert-tiny", {{"batch", 24}}},
                                  ModelSpec{"xdl", {{"batch", 48}}}, ModelSpec{"candle-uno", {{"batch", 48}}});
  SimulatedCostModel cost(load_topology("summit", {2, 12}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg model = build_model(spec);
  StrategyInput input{model, evaluator, {}, 12};
  IntraPlans plans(model, input);
  plans.prepare({2, 6, 12});
  IntraCosts costs(input, plans);
  for (int width : {2, 6, 12})
    for (int m : {1, 2}) {
      const Resources devices{0, width};
      INFO(spec.name << ", " << width << " devices, " << m << " micro-batches");
      const ChosenShardings chosen = choose_shardings(plans, costs, input, m, devices);
      CHECK(chosen.exact);
      REQUIRE(chosen.operands.size() == plans.operators().size());
      const double rounding = static_cast<double>(plans.operators().size());
      for (const IntraPlan& plan : plans.of_width(width))
        if (copies_of(plan) == 0 && plans.has_micro_batches(plan, m)) {
          INFO(to_string(plan));
          CHECK(static_cast<double>(chosen.time) <= time_of(costs, plan, m, devices) + rounding);
        }
      // Laid out so, the model takes that long, but for values that several operators read.
      const IntraPlan own{width, 1, IntraPlan::Rest::few, m};
      plans.add(own, chosen.operands);
      REQUIRE(plans.of_width(width).back() == own);
      CHECK(time_of(costs, own, m, devices) == Approx(static_cast<double>(chosen.time)).epsilon(0.02));
    }
}

TEST_CASE("on a chain of two products the choice is the least of all combinations") {
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg model = build_model({"mlp-mnist", {{"batch", 24}}});
  StrategyInput input{model, evaluator, {}, 6};
  IntraPlans plans(model, input);
  IntraCosts costs(input, plans);
  const Resources devices{0, 6};
  const ChosenShardings chosen = choose_shardings(plans, costs, input, 1, devices);
  // Changing any one operator to any single axis over all devices makes nothing faster.
  for (std::size_t k = 0; k < plans.operators().size(); ++k) {
    const AxisTable& table = *plans.model()[plans.operators()[k]].table;
    for (std::size_t a = 0; a < table.axes.size(); ++a) {
      if (!can_split(table, static_cast<int>(a)) || table.axes[a].size % 6 != 0 || table.axes[a].size == 1) continue;
      Sharding by_axis{std::vector<int>(table.axes.size(), 1), std::vector<int>(table.axes.size(), 1)};
      by_axis.degrees[a] = 6;
      std::vector<OperandShapes> other = chosen.operands;
      for (std::size_t j = 0; j < other[k].size(); ++j) other[k][j] = required_input_shape(table, by_axis, j);
      IntraPlans fresh(model, input);
      const IntraPlan own{6, 1, IntraPlan::Rest::few, 1};
      fresh.add(own, other);
      if (fresh.of_width(6).empty() || fresh.of_width(6).back() != own) continue;
      IntraCosts again(input, fresh);
      INFO("operator " << k << ", axis " << a);
      CHECK(time_of(again, own, 1, devices) >= static_cast<double>(chosen.time) - 8);
    }
  }
}

TEST_CASE("only what is allowed is split") {
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg model = build_model({"mlp-tiny", {{"batch", 48}}});
  SearchOptions options;
  options.parallelism = {"data"};
  StrategyInput input{model, evaluator, options, 6};
  IntraPlans plans(model, input);
  IntraCosts costs(input, plans);
  const ChosenShardings chosen = choose_shardings(plans, costs, input, 1, {0, 6});
  for (std::size_t k = 0; k < chosen.operands.size(); ++k) {
    const Node& n = plans.model()[plans.operators()[k]];
    Sharding sharding = infer_sharding(n.op->name(), *n.table, chosen.operands[k]).value();
    for (std::size_t a = 0; a < sharding.degrees.size(); ++a)
      if (sharding.degrees[a] > 1) CHECK(plans.batch_axis(k) == static_cast<int>(a));
  }
}

TEST_CASE("a baseline like Alpa's splits tables otherwise than layers of products") {
  ModelSpec spec{"xdl", {{"batch", 1536}}};
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  SearchOptions options;
  options.strategy = "alpa-like";
  Plan plan = find_plan(spec, build_model(spec), cost, options).value();
  CHECK(plan.search.stopped_because.find("each operator over") != std::string::npos);
  options.strategy = "data-parallel";
  Plan data = find_plan(spec, build_model(spec), cost, options).value();
  CHECK(plan.prediction.iteration * 10 < data.prediction.iteration);
}

}  // namespace unity
