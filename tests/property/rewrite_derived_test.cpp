// Every derived rule, on every operator's examples.
#include <set>

#include <catch2/catch.hpp>

#include "core/rewrite/apply.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/normalize.h"
#include "tests/support/rewrite_check.h"

namespace unity {
namespace {

struct Instance {
  Pcg pcg;
  NodeId node;
};

// An example as a graph of its own. Operand i comes through `lead`(degrees[i]) where that degree is above 1; before a
// reduce, it is the sum of as many inputs.
Instance instance(const Operator& op, const Example& example, std::string_view lead = "",
                  const std::vector<int>& degrees = {}) {
  Instance result;
  std::vector<ValueRef> inputs;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    Attributes attributes = {example.inputs[i].dims, std::string(to_string(example.inputs[i].dtype))};
    auto leaf = [&](int part) {
      auto origin = OriginId(static_cast<std::int64_t>(result.pcg.size()));
      std::string name = fmt::format("x{}.{}", i, part);
      return ValueRef{result.pcg.try_add(get_operator("input"), attributes, {}, origin, name).value(), 0};
    };
    int d = degrees.empty() ? 1 : degrees[i];
    ValueRef x = leaf(0);
    if (d > 1 && lead == "reduce") {
      std::vector<ValueRef> parts = {x};
      for (int part = 1; part < d; ++part) parts.push_back(leaf(part));
      x = {result.pcg.try_add(get_operator("stack_partials"), {}, parts).value(), 0};
    }
    if (d > 1) x = {result.pcg.try_add(get_operator(lead), {std::int64_t{d}}, {x}).value(), 0};
    inputs.push_back(x);
  }
  auto origin = OriginId(static_cast<std::int64_t>(result.pcg.size()));
  result.node = result.pcg.try_add(op, example.attributes, inputs, origin, op.name()).value();
  std::vector<ValueRef> outputs;
  for (std::size_t o = 0; o < result.pcg[result.node].outputs.size(); ++o)
    outputs.push_back({result.node, static_cast<int>(o)});
  result.pcg.set_outputs(outputs);
  return result;
}

template <class F>
void for_each_example(F&& f) {
  for (const Operator* op : all_operators()) {
    if (op->category() != OpCategory::compute) continue;
    for (const Example& example : op->examples()) f(*op, example);
  }
}

std::string reason(const Result<Pcg>& result) { return result.ok() ? "applied" : result.error().message; }

TEST_CASE("sharding any operator along any legal axis keeps its function and the shapes of its results") {
  int applied = 0;
  for_each_example([&](const Operator& op, const Example& example) {
    Instance in = instance(op, example);
    const AxisTable& table = *in.pcg[in.node].table;
    for (int a = 0; a < static_cast<int>(table.axes.size()); ++a) {
      const Axis& axis = table.axes[static_cast<std::size_t>(a)];
      for (int d = 2; d <= axis.size; ++d) {
        auto after = apply_shard(in.pcg, in.node, a, d);
        INFO(op.name() << " axis " << axis.name << " by " << d << ": " << reason(after));
        bool divides = axis.size % d == 0 || axis.role == AxisRole::window;
        CHECK(after.ok() == (can_split(table, a) && divides));
        if (!after.ok()) continue;
        test::check_same_function(in.pcg, *after);
        CHECK(print(normalize(*after)) == print(*after));
        // Whatever the axis, d tasks: nothing is computed twice.
        CHECK(node_sharding(*after, test::find_node(*after, op.name())).tasks() == d);
        ++applied;
      }
    }
  });
  CHECK(applied > 100);
}

TEST_CASE("spreading a computation that is done several times keeps function and copies") {
  int applied = 0;
  for_each_example([&](const Operator& op, const Example& example) {
    Instance in = instance(op, example, "replicate", std::vector<int>(example.inputs.size(), 4));
    const AxisTable& table = *in.pcg[in.node].table;
    REQUIRE(node_sharding(in.pcg, in.node).copies == 4);
    for (int a = 0; a < static_cast<int>(table.axes.size()); ++a) {
      auto after = apply_spread(in.pcg, in.node, a, 2);
      if (!after.ok()) continue;
      INFO(op.name() << " axis " << table.axes[static_cast<std::size_t>(a)].name);
      test::check_same_function(in.pcg, *after);
      for (std::size_t o = 0; o < in.pcg.outputs().size(); ++o)
        CHECK(after->shape(after->outputs()[o]) == in.pcg.shape(in.pcg.outputs()[o]));
      // Four tasks as before: two halves, each computed twice.
      Sharding sharding = node_sharding(*after, test::find_node(*after, op.name()));
      CHECK(sharding.copies == 2);
      CHECK(sharding.tasks() == 4);
      ++applied;
    }
  });
  CHECK(applied > 50);
}

TEST_CASE("replicating moves copies from the results to the operands") {
  for_each_example([&](const Operator& op, const Example& example) {
    Instance in = instance(op, example);
    Pcg before = in.pcg;
    std::vector<ValueRef> outputs;
    for (ValueRef v : in.pcg.outputs())
      outputs.push_back({before.try_add(get_operator("replicate"), {std::int64_t{6}}, {v}).value(), 0});
    before.set_outputs(outputs);
    INFO(op.name());
    Pcg after = apply_replicate(before, in.node, 3).value();
    test::check_same_function(before, after);
    CHECK(node_sharding(after, test::find_node(after, op.name())).copies == 3);
    for (std::size_t o = 0; o < outputs.size(); ++o) CHECK(after.shape(after.outputs()[o]) == before.shape(outputs[o]));
  });
}

TEST_CASE("reductions move behind linear operators, and behind no others") {
  int applied = 0;
  for_each_example([&](const Operator& op, const Example& example) {
    Instance plain = instance(op, example);
    const AxisTable& table = *plain.pcg[plain.node].table;
    for (std::size_t i = 0; i < table.inputs.size(); ++i) {
      if (example.inputs[i].dtype != DType::f32) continue;
      bool joint = table.linearity == Linearity::joint && table.inputs[i].linear;
      std::vector<int> degrees(table.inputs.size(), 1);
      for (std::size_t j = 0; j < degrees.size(); ++j)
        if (j == i || (joint && table.inputs[j].linear)) degrees[j] = 3;
      Instance in = instance(op, example, "reduce", degrees);
      auto after = apply_reduce(in.pcg, in.node, static_cast<int>(i), 3);
      INFO(op.name() << " operand " << i << ": " << reason(after));
      CHECK(after.ok() == (table.inputs[i].linear && table.linearity != Linearity::none));
      if (!after.ok()) continue;
      test::check_same_function(in.pcg, *after);
      CHECK(node_sharding(*after, test::find_node(*after, op.name())).passing == 3);
      ++applied;
    }
  });
  CHECK(applied > 10);
}

bool op_is_commutative(const Rule& rule) {
  for (const Operator* op : all_operators())
    if (op->commutative() && rule.name.find("_" + op->name()) != std::string::npos) return true;
  return false;
}

TEST_CASE("derived rules as text agree with their application on nodes") {
  std::set<std::string> agreed;
  const std::vector<Rule> rules = derived_rules();
  auto agree = [&](const std::string& name, const Pcg& pcg, const Result<Pcg>& expected, int d) {
    for (const Rule& rule : rules) {
      if (rule.name != name || !expected.ok()) continue;
      for (const Match& match : find_matches(pcg, rule)) {
        auto got = apply(pcg, rule, match, rule.parameters.empty() ? Parameters{} : Parameters{{"d", d}});
        if (!got.ok()) continue;  // the rule is that of another example, of another rank
        INFO(print(rule));
        // A commutative operator matches with either operand first; one of both is written as in the graph.
        bool equal = canonical_hash(normalize(*got)) == canonical_hash(*expected);
        if (equal) agreed.insert(name);
        CHECK((equal || op_is_commutative(rule)));
      }
    }
  };
  auto agree_at_degree = [&](const Operator& op, const Example& example, int d) {
    Instance in = instance(op, example);
    const AxisTable& table = *in.pcg[in.node].table;
    std::vector<int> all(table.inputs.size(), d);
    Instance copied = instance(op, example, "replicate", all);
    for (int a = 0; a < static_cast<int>(table.axes.size()); ++a) {
      agree(shard_rule_name(in.pcg[in.node], a), in.pcg, apply_shard(in.pcg, in.node, a, d), d);
      agree(spread_rule_name(in.pcg[in.node], a), copied.pcg, apply_spread(copied.pcg, copied.node, a, d), d);
    }
    for (std::size_t i = 0; i < table.inputs.size(); ++i) {
      if (table.linearity == Linearity::none || !table.inputs[i].linear) continue;
      std::vector<int> degrees(table.inputs.size(), 1);
      for (std::size_t j = 0; j < degrees.size(); ++j)
        if (j == i || (table.linearity == Linearity::joint && table.inputs[j].linear)) degrees[j] = d;
      Instance sum = instance(op, example, "reduce", degrees);
      std::string suffix = table.linearity == Linearity::joint ? "" : fmt::format("_{}", i);
      agree("reduce_" + op.name() + suffix, sum.pcg, apply_reduce(sum.pcg, sum.node, static_cast<int>(i), d), d);
    }
    std::vector<ValueRef> outputs;
    for (ValueRef v : in.pcg.outputs())
      outputs.push_back({in.pcg.try_add(get_operator("replicate"), {std::int64_t{d}}, {v}).value(), 0});
    in.pcg.set_outputs(outputs);
    agree("replicate_" + op.name(), in.pcg, apply_replicate(in.pcg, in.node, d), d);
  };
  for_each_example([&](const Operator& op, const Example& example) {
    for (int d : {2, 3, 5, 7}) agree_at_degree(op, example, d);
  });
  for (const Rule& rule : rules) {
    INFO(print(rule));
    CHECK(agreed.contains(rule.name));
  }
}

TEST_CASE("rules that do not apply say why") {
  Instance in = instance(get_operator("matmul"), get_operator("matmul").examples()[0]);  // [4, 6] x [6, 8]
  CHECK(reason(apply_shard(in.pcg, in.node, 1, 3)) ==
        "shard_matmul: 3 parts do not divide axis n of matmul, of size 8");
  CHECK(reason(apply_shard(in.pcg, in.node, 7, 2)) == "shard_matmul: matmul has no axis 7, expected 0 to 2");
  CHECK(reason(apply_shard(in.pcg, in.node, 0, 1)) == "shard_matmul: matmul: degree is 1, expected at least 2");
  CHECK(reason(apply_spread(in.pcg, in.node, 0, 2)) ==
        "spread_matmul: matmul is computed 1 times, expected a multiple of 2");
  CHECK(reason(apply_reduce(in.pcg, in.node, 0, 2)) ==
        "reduce_matmul: matmul: a value has partials 1, expected a multiple of 2");
  CHECK(reason(apply_shard(in.pcg, NodeId(0), 0, 2)) == "shard_input: x0.0 is not a computation");
  Instance relu = instance(get_operator("relu"), get_operator("relu").examples()[0]);
  CHECK(reason(apply_reduce(relu.pcg, relu.node, 0, 2)) == "reduce_relu: relu is not linear in operand 0");
}

}  // namespace
}  // namespace unity
