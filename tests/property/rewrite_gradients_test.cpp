// What rules of the library make of training, also where values are equal: there maxima have no derivative, and the
// gradient is what the operators say.
#include <cmath>

#include <catch2/catch.hpp>

#include "core/graph/autodiff.h"
#include "core/graph/evaluate.h"
#include "core/graph/text.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/library.h"

namespace unity {
namespace {

// The source of an instance with weights for its variables, and a loss that weighs each element of its results.
// None: a result is no real number, or can not be weighed.
std::optional<Pcg> training(const Pcg& source) {
  Pcg pcg;
  std::vector<NodeId> moved;
  auto add = [&](std::string_view op, Attributes attributes, std::vector<ValueRef> inputs, std::string name = {}) {
    return pcg.try_add(get_operator(op), std::move(attributes), std::move(inputs),
                       OriginId(static_cast<std::int64_t>(pcg.size())), std::move(name));
  };
  for (const Node& node : source.nodes()) {
    std::vector<ValueRef> inputs;
    for (ValueRef v : node.inputs) inputs.push_back({moved[v.node.index()], v.output});
    bool real = node.op->name() == "input" && node.outputs[0].dtype == DType::f32;
    auto added = real ? add("weight", {node.outputs[0].shape().dims}, {}, node.name)
                      : add(node.op->name(), node.attributes, inputs, node.name);
    if (!added.ok()) return std::nullopt;
    moved.push_back(*added);
  }
  std::optional<ValueRef> loss;
  for (std::size_t o = 0; o < source.outputs().size(); ++o) {
    ValueRef v{moved[source.outputs()[o].node.index()], source.outputs()[o].output};
    Shape shape = pcg.shape(v).shape();
    if (shape.dtype != DType::f32 || pcg.shape(v).parallel()) return std::nullopt;
    Dims all;
    for (std::size_t d = 0; d < shape.dims.size(); ++d) all.push_back(static_cast<std::int64_t>(d));
    ValueRef weighed{add("mul", {}, {v, {*add("input", {shape.dims}, {}, fmt::format("weighs{}", o)), 0}}).value(), 0};
    if (!all.empty()) weighed = {add("reduce_sum", {all}, {weighed}).value(), 0};
    loss = loss ? ValueRef{add("add", {}, {*loss, weighed}).value(), 0} : weighed;
  }
  pcg.set_outputs({*loss});
  return pcg;
}

// The gradient of each weight, by name.
std::optional<LeafValues> gradients(const Pcg& pcg, LeafValues leaves) {
  auto graph = differentiate(pcg);
  if (!graph.ok()) return std::nullopt;
  leaves["loss_gradient"] = LogicalTensor({{}, DType::f64});
  *leaves["loss_gradient"].as<double>() = 1;
  std::vector<LogicalTensor> outputs = evaluate_outputs(*graph, leaves);
  LeafValues found;
  std::size_t next = 1;
  for (const Node& node : pcg.nodes())
    if (node.op->name() == "weight") found[node.name] = outputs.at(next++);
  return found;
}

// Whole numbers of which many are equal.
LeafValues with_ties(const Pcg& pcg, std::int64_t least, std::int64_t count) {
  LeafValues leaves = random_leaves(pcg, {.seed = 3});
  for (const Node& node : pcg.nodes())
    if (node.op->name() == "weight")
      for (std::int64_t i = 0; i < leaves[node.name].elements(); ++i)
        leaves[node.name].as<double>()[i] = static_cast<double>(
            least + static_cast<std::int64_t>(mix(static_cast<Hash>(i) * 31 + hash_text(node.name)) % count));
  return leaves;
}

void check_same(const LeafValues& was, const LeafValues& is) {
  REQUIRE(was.size() == is.size());
  for (const auto& [name, gradient] : was)
    for (std::int64_t i = 0; i < gradient.elements(); ++i) {
      double a = gradient.number(i), b = is.at(name).number(i);
      if (!std::isfinite(a) || !std::isfinite(b)) continue;  // outside the function's domain
      if (std::abs(a - b) > 1e-8 * std::max({1.0, std::abs(a), std::abs(b)}))
        FAIL("gradient of " << name << " at " << i << " is " << b << ", before " << a);
    }
}

TEST_CASE("where operands of a maximum or minimum are equal, each gets half of the gradient") {
  for (const char* op : {"maximum", "minimum"}) {
    Pcg pcg =
        parse_pcg(fmt::format("pcg g {{ x = weight([3]) y = weight([3]) return reduce_sum([0], {}(x, y)) }}", op));
    LeafValues leaves = random_leaves(pcg, {});
    for (std::int64_t i = 0; i < 3; ++i) {
      leaves["x"].as<double>()[i] = 1;
      leaves["y"].as<double>()[i] = static_cast<double>(i);  // smaller, equal, larger
    }
    LeafValues found = gradients(pcg, leaves).value();
    bool larger = std::string(op) == "maximum";
    CHECK(found["x"].number(0) == (larger ? 1 : 0));
    CHECK(found["x"].number(1) == 0.5);
    CHECK(found["x"].number(2) == (larger ? 0 : 1));
    for (std::int64_t i = 0; i < 3; ++i) CHECK(found["x"].number(i) + found["y"].number(i) == 1);
  }
}

TEST_CASE("maxima of maxima are rewritten only where no gradient flows through them") {
  const Rule& rule = *std::find_if(rule_library().begin(), rule_library().end(),
                                   [](const Rule& r) { return r.name == "commute_maximums"; });
  auto applied = [&](const std::string& leaf) {
    Pcg pcg = parse_pcg("pcg g { x = " + leaf +
                        "([4, 4]) y = input([4, 4]) z = input([4, 4]) w = weight([4, 4]) m = maximum(x, maximum(y, z)) "
                        "return reduce_sum([0, 1], mul(m, w)) }");
    std::vector<Match> matches = find_matches(pcg, rule);
    REQUIRE_FALSE(matches.empty());
    return apply(pcg, rule, matches[0], {});
  };
  CHECK(applied("input").ok());
  auto refused = applied("weight");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "rule commute_maximums: a gradient flows through maximum 'm', and would be another where values are equal");
}

TEST_CASE("whatever a rule of the library gives has the same gradients, where values are equal too") {
  std::int64_t compared = 0, refused = 0;
  for (const Rule& rule : rule_library()) {
    if (!rule.algebraic()) continue;
    SampleOptions options;
    options.serial = true;
    InstanceSampler sampler(rule, options);
    for (int draw = 0; draw < 2; ++draw) {
      auto at = sampler.next();
      if (!at || at->fault != InstanceFault::none) continue;
      auto pcg = training(at->instance.source);
      if (!pcg || !differentiate(*pcg).ok()) continue;
      for (const Match& match : find_matches(*pcg, rule)) {
        auto after = apply(*pcg, rule, match, {});
        refused += !after.ok();
        if (!after.ok()) continue;
        INFO(print(rule) << print(*pcg) << print(*after));
        for (auto [least, count] : {std::pair(1, 2), std::pair(-1, 3)}) {
          LeafValues leaves = with_ties(*pcg, least, count);
          auto was = gradients(*pcg, leaves), is = gradients(*after, leaves);
          REQUIRE(is);
          check_same(*was, *is);
          ++compared;
        }
      }
    }
  }
  INFO(compared << " compared, " << refused << " refused");
  CHECK(compared > 500);
}

TEST_CASE("a weight that decays, and a state that is written, are not left out by a rule") {
  Rule rule =
      *std::find_if(rule_library().begin(), rule_library().end(), [](const Rule& r) { return r.name == "sub_of_add"; });
  auto refusal = [&](const std::string& body) {
    Pcg pcg = parse_pcg("pcg g { x = input([4, 4]) " + body + " }");
    std::vector<Match> matches = find_matches(pcg, rule);
    REQUIRE_FALSE(matches.empty());
    auto after = apply(pcg, rule, matches[0], {});
    return after.ok() ? "none" : after.error().message;
  };
  const std::string loss = " return reduce_sum([0, 1], b) ";
  CHECK(refusal("y = weight([4, 4]) w = weight([4, 4]) b = sub(add(matmul(x, w), y), y)" + loss) ==
        "rule sub_of_add: weight 'y' would be left out");
  // It stays where something else needs it.
  CHECK(refusal("y = weight([4, 4]) w = weight([4, 4]) b = mul(sub(add(matmul(x, w), y), y), y)" + loss) == "none");
  CHECK(refusal("y = input([4, 4]) w = weight([4, 4]) b = sub(add(matmul(x, w), y), y)" + loss) == "none");
  const std::string moments =
      "w = weight([4, 4]) m = state([4]) v = state([4]) h = matmul(x, w) (s, q) = moments(h) (c, d, e, f) = "
      "combine_moments(4, s, q, m, v) ";
  CHECK(refusal(moments + "n = mul(h, c) b = sub(add(h, n), n)" + loss) ==
        "rule sub_of_add: state 'm' would be left out");
  // Both are read elsewhere, but nothing would write them.
  CHECK(refusal(moments + "n = mul(h, c) b = add(add(sub(add(h, n), n), m), v)" + loss) ==
        "rule sub_of_add: state 'm' would not be written");
}

}  // namespace
}  // namespace unity
