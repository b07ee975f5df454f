#include "core/rewrite/instance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "core/graph/evaluate.h"
#include "core/rewrite/apply.h"

namespace unity {
namespace {

constexpr double kRounding = 1e-9;  // of sums of a few dozen numbers of about 1

// A leaf laid out as the shape says. Partial maxima are those of a leaf with a dimension more, of which each part has
// one element.
Result<ValueRef> add_variable(Pcg& pcg, const std::string& name, const ParallelShape& shape) {
  if (shape.partials > 1 && shape.monoid == Monoid::max) {
    ParallelShape of = shape;
    of.dims.insert(of.dims.begin(), {shape.partials, shape.partials, 1});
    of.partials = 1, of.monoid = Monoid::sum;
    ValueRef leaf = UNITY_TRY(add_variable(pcg, name, of));
    NodeId largest = UNITY_TRY(pcg.try_add(get_operator("reduce_max"), {Dims{0}, std::int64_t{1}}, {leaf},
                                           OriginId(static_cast<std::int64_t>(pcg.size())), {}));
    return ValueRef{largest, 0};
  }
  auto layout = [&](const std::string& leaf) -> Result<ValueRef> {
    auto origin = OriginId(static_cast<std::int64_t>(pcg.size()));
    NodeId node = UNITY_TRY(pcg.try_add(get_operator("input"),
                                        {shape.shape().dims, std::string(to_string(shape.dtype))}, {}, origin, leaf));
    auto add = [&](std::string_view op, Attributes attributes) -> Result<NodeId> {
      return pcg.try_add(get_operator(op), std::move(attributes), {{node, 0}}, origin);
    };
    for (std::size_t j = 0; j < shape.dims.size(); ++j) {
      auto dim = static_cast<std::int64_t>(j);
      if (shape.dims[j].degree > 1) node = UNITY_TRY(add("partition", {dim, std::int64_t{shape.dims[j].degree}}));
      if (shape.dims[j].micro > 1) node = UNITY_TRY(add("pipeline", {dim, std::int64_t{shape.dims[j].micro}}));
    }
    if (shape.copies > 1) node = UNITY_TRY(add("replicate", {std::int64_t{shape.copies}}));
    return ValueRef{node, 0};
  };
  if (shape.partials == 1) return layout(name);
  std::vector<ValueRef> summands;
  for (int p = 0; p < shape.partials; ++p) summands.push_back(UNITY_TRY(layout(fmt::format("{}.{}", name, p))));
  auto origin = OriginId(static_cast<std::int64_t>(pcg.size()));
  return ValueRef{UNITY_TRY(pcg.try_add(get_operator("stack_partials"), {}, std::move(summands), origin)), 0};
}

// Puts pattern nodes into a graph, those of the target (and of the source, where the target keeps them) on demand.
class SideBuilder {
 public:
  SideBuilder(const Rule& rule, const Bindings& bindings, std::vector<ValueRef> variables, Pcg& pcg)
      : rule_(rule), bindings_(bindings), variables_(std::move(variables)), pcg_(pcg), built_(rule.nodes.size()) {}

  Result<ValueRef> value(PatternValue v) {
    if (v.variable >= 0) return variables_[static_cast<std::size_t>(v.variable)];
    return ValueRef{UNITY_TRY(node(static_cast<std::size_t>(v.node))), v.output};
  }

  Result<NodeId> node(std::size_t n) {
    if (built_[n].valid()) return built_[n];
    const PatternNode& pattern = rule_.nodes[n];
    std::vector<ValueRef> inputs;
    for (PatternValue v : pattern.inputs) inputs.push_back(UNITY_TRY(value(v)));
    auto specs = pattern.op->attributes();
    Attributes attributes;
    for (std::size_t i = 0; i < specs.size(); ++i)
      attributes.push_back(pattern.attributes[i] ? UNITY_TRY(unity::evaluate(*pattern.attributes[i], rule_, bindings_))
                                                 : specs[i].fallback);
    NodeId id = UNITY_TRY(pcg_.try_add(*pattern.op, std::move(attributes), std::move(inputs),
                                       OriginId(static_cast<std::int64_t>(pcg_.size())), {}));
    if (static_cast<int>(pcg_[id].outputs.size()) != pattern.results)
      return fail("{} has {} results, expected {}", pattern.op->name(), pcg_[id].outputs.size(), pattern.results);
    return built_[n] = id;
  }

 private:
  const Rule& rule_;
  const Bindings& bindings_;
  std::vector<ValueRef> variables_;
  Pcg& pcg_;
  std::vector<NodeId> built_;
};

// Numbers for values of logical tensors: equal ones for equal terms.
class Numbering {
 public:
  std::vector<int> outputs(const Pcg& pcg) {
    std::vector<int> first;  // by node: the number of its first result
    auto number = [&](ValueRef v) { return first[v.node.index()] + v.output; };
    for (const Node& node : pcg.nodes()) {
      std::vector<int> inputs;
      for (ValueRef v : node.inputs) inputs.push_back(number(v));
      if (node.is_parallelization() && inputs.size() == 1) {
        first.push_back(inputs[0]);
        continue;
      }
      auto [known, added] = numbers_.try_emplace(
          Term{node.op, node.is_leaf() ? node.name : std::string(), node.attributes, std::move(inputs)}, next_);
      if (added) next_ += static_cast<int>(node.outputs.size());
      first.push_back(known->second);
    }
    std::vector<int> result;
    for (ValueRef v : pcg.outputs()) result.push_back(number(v));
    return result;
  }

 private:
  using Term = std::tuple<const Operator*, std::string, Attributes, std::vector<int>>;
  std::map<Term, int> numbers_;  // looked up, never walked
  int next_ = 0;
};

}  // namespace

std::string_view to_string(InstanceFault fault) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "ill-typed source", "condition", "ill-typed target",
                                                      "shapes"};
  return kNames[static_cast<std::size_t>(fault)];
}

Instantiation instantiate(const Rule& rule, const std::vector<ParallelShape>& variables,
                          const std::vector<AttributeValue>& attributes) {
  Instantiation result;
  RuleInstance& instance = result.instance;
  instance.variables = variables;
  instance.attributes = attributes;
  auto found = [&](InstanceFault fault, const Error& error) {
    result.fault = fault;
    result.why = error.message;
    instance.target = Pcg();
    return result;
  };

  std::vector<ValueRef> values;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    auto leaf = add_variable(instance.source, rule.values[v], variables[v]);
    if (!leaf.ok()) return found(InstanceFault::source, leaf.error());
    values.push_back(*leaf);
  }
  instance.target = instance.source;
  std::vector<std::optional<AttributeValue>> bound(attributes.begin(), attributes.end());
  std::vector<NodeId> nodes(rule.source_nodes);
  Bindings bindings{instance.source, nodes, values, bound};

  SideBuilder source(rule, bindings, values, instance.source);
  for (std::size_t n = 0; n < rule.source_nodes; ++n) {
    auto node = source.node(n);
    if (!node.ok()) return found(InstanceFault::source, node.error());
    nodes[n] = *node;
  }
  std::vector<ValueRef> outputs;
  for (PatternValue v : rule.source_outputs) outputs.push_back(source.value(v).value());
  instance.source.set_outputs(outputs);
  for (const Condition& condition : rule.conditions) {
    auto held = check(condition, rule, bindings);
    if (!held.ok()) return found(InstanceFault::condition, held.error());
  }

  SideBuilder target(rule, bindings, values, instance.target);
  outputs.clear();
  for (PatternValue v : rule.target_outputs) {
    auto output = target.value(v);
    if (!output.ok()) return found(InstanceFault::target, output.error());
    outputs.push_back(*output);
  }
  instance.target.set_outputs(outputs);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const ParallelShape& was = instance.source.shape(instance.source.outputs()[o]);
    const ParallelShape& is = instance.target.shape(outputs[o]);
    if (was == is || result.fault != InstanceFault::none) continue;
    result.fault = InstanceFault::shapes;
    result.why = fmt::format("result {} of the target is {}, expected {}", o, to_string(is), to_string(was));
  }
  return result;
}

bool same_terms(const RuleInstance& instance) {
  if (instance.source.outputs().size() != instance.target.outputs().size()) return false;
  Numbering numbering;
  std::vector<int> source = numbering.outputs(instance.source);
  return source == numbering.outputs(instance.target);
}

std::int64_t loop_points(const RuleInstance& instance) {
  std::int64_t points = 0;
  for (const Pcg* side : {&instance.source, &instance.target})
    for (const Node& node : side->nodes()) {
      if (!node.table) continue;
      std::int64_t of_node = 1;
      for (const Axis& axis : node.table->axes) of_node *= axis.size;
      points += of_node;
    }
  return points;
}

std::vector<RuleInstance> instances_in(const Pcg& pcg, const Rule& rule, const Integers& candidates) {
  std::vector<RuleInstance> instances;
  std::set<std::string> seen;
  for (const Match& match : find_matches(pcg, rule)) {
    std::vector<ParallelShape> variables;
    std::string text;
    for (ValueRef v : match.values) text += to_string(variables.emplace_back(pcg.shape(v))) + "; ";
    for (const Parameters& parameters : parameter_choices(pcg, rule, match, candidates)) {
      std::vector<AttributeValue> attributes;
      std::string all = text;
      for (std::size_t a = 0; a < rule.attributes.size(); ++a) {
        auto chosen = parameters.find(rule.attributes[a]);
        attributes.push_back(chosen != parameters.end() ? chosen->second
                             : match.attributes[a]      ? *match.attributes[a]
                                                        : std::int64_t{1});
        all += to_string(attributes.back()) + " ";
      }
      if (!seen.insert(all).second) continue;
      Instantiation at = instantiate(rule, variables, attributes);
      if (at.fault == InstanceFault::none) instances.push_back(std::move(at.instance));
    }
  }
  return instances;
}

Agreement compare_sides(const RuleInstance& instance, std::uint64_t seed) {
  if (same_terms(instance)) return Agreement::exact;
  auto outputs = [&](const Pcg& side, const EvaluateOptions& options, const LeafValues& leaves) {
    return evaluate_outputs(side, leaves, options);
  };
  EvaluateOptions options{DType::mod, seed, 0};
  LeafValues leaves = random_leaves(instance.source, options);
  if (outputs(instance.source, options, leaves) == outputs(instance.target, options, leaves)) return Agreement::exact;
  options.real = DType::f64;
  leaves = random_leaves(instance.source, options);
  std::vector<LogicalTensor> source = outputs(instance.source, options, leaves);
  std::vector<LogicalTensor> target = outputs(instance.target, options, leaves);
  std::int64_t compared = 0;
  for (std::size_t o = 0; o < source.size(); ++o)
    for (std::int64_t i = 0; i < source[o].elements(); ++i) {
      double a = source[o].number(i), b = target[o].number(i);
      if (std::isnan(a) && std::isnan(b)) continue;  // outside the function's domain
      ++compared;
      if (!(std::abs(a - b) <= kRounding * std::max({1.0, std::abs(a), std::abs(b)}))) return Agreement::none;
    }
  return compared > 0 ? Agreement::rounding : Agreement::none;
}

}  // namespace unity
