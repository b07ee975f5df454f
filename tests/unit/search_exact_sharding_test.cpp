// Operators that are each split in a way of their own (core/search/exact_sharding.h).
#include <algorithm>
#include <limits>
#include <map>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/search/exact_sharding.h"
#include "core/search/search.h"
#include "core/search/stage_moves.h"
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

TEST_CASE("what is chosen takes no longer than any combination of single axes, all of which are tried") {
  SimulatedCostModel cost(load_topology("summit", {1, 2}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg model = build_model({"mlp-tiny", {{"batch", 24}}});
  StrategyInput input{model, evaluator, {}, 2};
  IntraPlans plans(model, input);
  IntraCosts costs(input, plans);
  const Resources devices{0, 2};
  struct Way {
    std::vector<ParallelShape> operands, results;
    double time = 0;
  };
  std::map<NodeId, std::size_t> place;
  std::vector<std::vector<Way>> ways;  // by operator: not at all, or along one axis over all devices
  for (std::size_t k = 0; k < plans.operators().size(); ++k) {
    const Node& n = plans.model()[plans.operators()[k]];
    place[plans.operators()[k]] = k;
    std::vector<bool> own;  // no weight is read twice
    for (ValueRef v : n.inputs) own.push_back(plans.model()[v.node].op->stored());
    ways.emplace_back();
    for (int a = -1; a < static_cast<int>(n.table->axes.size()); ++a) {
      Sharding sharding{std::vector<int>(n.table->axes.size(), 1), std::vector<int>(n.table->axes.size(), 1)};
      if (a >= 0 && (!can_split(*n.table, a) || n.table->axes[static_cast<std::size_t>(a)].size % 2 != 0)) continue;
      if (a >= 0) sharding.degrees[static_cast<std::size_t>(a)] = 2;
      Way way;
      for (std::size_t j = 0; j < n.inputs.size(); ++j)
        way.operands.push_back(required_input_shape(*n.table, sharding, j));
      for (std::size_t o = 0; o < n.outputs.size(); ++o)
        way.results.push_back(output_parallel_shape(*n.table, sharding, o));
      const IntraCosts::OperatorCosts c = costs.operator_costs(k, sharding, way.operands, own, 1, devices);
      way.time = c.time + c.sync + c.update;
      ways.back().push_back(std::move(way));
    }
  }
  double least = std::numeric_limits<double>::infinity();
  std::size_t combinations = 1, possible = 0;
  for (const auto& of_operator : ways) combinations *= of_operator.size();
  REQUIRE(combinations > 50);
  for (std::size_t i = 0; i < combinations; ++i) {
    std::vector<const Way*> picked;
    std::size_t rest = i;
    double time = 0;
    bool can_be = true;
    for (const auto& of_operator : ways) {
      picked.push_back(&of_operator[rest % of_operator.size()]);
      rest /= of_operator.size(), time += picked.back()->time;
    }
    for (std::size_t k = 0; k < ways.size(); ++k) {
      const Node& n = plans.model()[plans.operators()[k]];
      for (std::size_t j = 0; j < n.inputs.size(); ++j) {
        auto producer = place.find(n.inputs[j].node);
        if (producer == place.end()) continue;
        const ParallelShape& from = picked[producer->second]->results[static_cast<std::size_t>(n.inputs[j].output)];
        const ParallelShape& to = picked[k]->operands[j];
        can_be = can_be && from.partials % to.partials == 0 && to.copies % from.copies == 0;
        if (can_be) time += costs.move_time(from, to, 1, devices);
      }
    }
    if (can_be) ++possible, least = std::min(least, time);
  }
  CHECK(possible > 25);
  CHECK(static_cast<double>(choose_shardings(plans, costs, input, 1, devices).time) <=
        least + static_cast<double>(ways.size()));
}

TEST_CASE("of the paper's models the choice is exact on all devices of a node, in equal parts and not") {
  const std::string name = GENERATE("bert-large", "resnext-50", "inception-v3", "mlp", "candle-uno", "dlrm", "xdl");
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg model = build_model({name, {}});
  StrategyInput input{model, evaluator, {}, 6};
  IntraPlans plans(model, input);
  IntraCosts costs(input, plans);
  INFO(name);
  for (bool uneven : {false, true}) CHECK(choose_shardings(plans, costs, input, 1, {0, 6}, uneven).exact);
}

TEST_CASE("only what is allowed is split") {
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg model = build_model({"mlp", {{"batch", 1536}}});
  SearchOptions options;
  options.parallelism = {"data"};
  StrategyInput input{model, evaluator, options, 6};
  IntraPlans plans(model, input);
  IntraCosts costs(input, plans);
  const ChosenShardings chosen = choose_shardings(plans, costs, input, 1, {0, 6});
  int split = 0;
  for (std::size_t k = 0; k < chosen.operands.size(); ++k) {
    const Node& n = plans.model()[plans.operators()[k]];
    Sharding sharding = infer_sharding(n.op->name(), *n.table, chosen.operands[k]).value();
    for (std::size_t a = 0; a < sharding.degrees.size(); ++a)
      if (sharding.degrees[a] > 1) {
        CHECK(plans.batch_axis(k) == static_cast<int>(a));
        ++split;
      }
  }
  CHECK(split > 0);
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

TEST_CASE("collectives that all groups do at once take as long as their links have to do for them") {
  SimulatedCostModel cost(load_topology("summit", {.nodes = 2}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  Pcg model = build_model({"mlp-tiny", {{"batch", 24}}});
  StrategyInput input{model, evaluator, {}, 12};
  IntraPlans plans(model, input);
  IntraCosts costs(input, plans);
  const Resources all{0, 12};
  const double bytes = 600e6;
  auto alone = [&](const std::vector<DeviceId>& group, double b) {
    return static_cast<double>(
        cost.collective_time(CollectiveKind::all_reduce, group, Bytes{static_cast<std::int64_t>(b)}).count);
  };
  auto together = [&](int group, int stride) {
    return static_cast<double>(costs.collective(CollectiveKind::all_reduce, group, stride, all, bytes));
  };
  std::vector<DeviceId> everyone;
  for (int d = 0; d < 12; ++d) everyone.emplace_back(d);
  CHECK(together(12, 1) == alone(everyone, bytes));
  // Device i of one node with device i of the other: a ring alone has a socket's 16 GB/s; three share these, and six
  // the node's 25 GB/s, which is less.
  const std::vector<DeviceId> pair = {DeviceId(0), DeviceId(6)};
  const double latency = alone(pair, 1);
  CHECK(together(2, 6) - latency == Approx((alone(pair, bytes) - latency) * (6 / 25.0) / (1 / 16.0)).epsilon(1e-3));
  // Sockets have nothing to share.
  const std::vector<DeviceId> socket = {DeviceId(0), DeviceId(1), DeviceId(2)};
  CHECK(together(3, 1) == alone(socket, bytes));
  // Pairs of the two sockets of a node: three on its bus.
  const std::vector<DeviceId> across = {DeviceId(0), DeviceId(3)};
  const double first = alone(across, 1);
  CHECK(static_cast<double>(costs.collective(CollectiveKind::all_reduce, 2, 3, {0, 6}, bytes)) - first ==
        Approx((alone(across, bytes) - first) * 3).epsilon(1e-3));
}

}  // namespace unity
