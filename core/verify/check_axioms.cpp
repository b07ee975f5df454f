#include "core/verify/check_axioms.h"

#include <algorithm>
#include <set>

#include "core/rewrite/axioms.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/signature.h"
#include "core/verify/evaluation.h"
#include "core/verify/shape_facts.h"
#include "core/verify/small_shapes.h"

namespace unity {
namespace {

// Equal modulo a prime, or, where that is not for want of a function's own identities, in 64-bit integers; and in real
// numbers, where alone what an operator does with those below zero shows.
bool holds(const RuleInstance& instance) {
  for (std::uint64_t seed : {1, 2})
    if (!equal_values(instance, DType::mod, seed) && !equal_values(instance, DType::i64, seed)) return false;
  return equal_values(instance, DType::f64, 1);
}

std::set<int> nodes_under(const Rule& rule, const std::vector<PatternValue>& values) {
  std::set<int> nodes;
  for (PatternValue v : values) {
    if (v.node < 0) continue;
    nodes.insert(v.node);
    nodes.merge(nodes_under(rule, rule.nodes[static_cast<std::size_t>(v.node)].inputs));
  }
  return nodes;
}

void move_queries(Expression& e, const std::vector<int>& moved) {
  if (e.kind == Expression::Kind::shape && e.value.node >= 0)
    e.value.node = moved[static_cast<std::size_t>(e.value.node)];
  for (Expression& a : e.arguments) move_queries(a, moved);
}

void collect(const Expression& e, std::set<int>& attributes, std::set<int>& values, std::set<int>& nodes) {
  if (e.kind == Expression::Kind::variable) attributes.insert(e.variable);
  if (e.kind == Expression::Kind::shape)
    (e.value.node >= 0 ? nodes : values).insert(std::max(e.value.node, e.value.variable));
  for (const Expression& a : e.arguments) collect(a, attributes, values, nodes);
}

// The axiom with `from` as its left side and `to` as its right one; none when `from` does not bind all variables, so
// that no proof uses it that way.
std::optional<Rule> directed(const Rule& axiom, const std::vector<PatternValue>& from,
                             const std::vector<PatternValue>& to) {
  Rule rule = axiom;
  std::set<int> first = nodes_under(axiom, from), all = nodes_under(axiom, to);
  all.insert(first.begin(), first.end());
  if (first.empty()) return std::nullopt;
  std::vector<int> moved(axiom.nodes.size(), -1);
  rule.nodes.clear();
  for (bool source : {true, false})
    for (int n : all)
      if (first.contains(n) == source) {
        moved[static_cast<std::size_t>(n)] = static_cast<int>(rule.nodes.size());
        rule.nodes.push_back(axiom.nodes[static_cast<std::size_t>(n)]);
      }
  rule.source_nodes = first.size();
  std::set<int> bound_attributes, used_attributes, bound_values, used_values, used_nodes;
  for (std::size_t n = 0; n < rule.nodes.size(); ++n) {
    bool source = n < rule.source_nodes;
    for (PatternValue& v : rule.nodes[n].inputs) {
      if (v.node >= 0) v.node = moved[static_cast<std::size_t>(v.node)];
      if (v.variable >= 0) (source ? bound_values : used_values).insert(v.variable);
    }
    for (auto& e : rule.nodes[n].attributes) {
      if (!e) continue;
      if (source && e->kind == Expression::Kind::variable)
        bound_attributes.insert(e->variable);
      else
        collect(*e, used_attributes, used_values, used_nodes);
      move_queries(*e, moved);
    }
  }
  for (Condition& c : rule.conditions)
    for (Expression* e : {&c.left, &c.right}) {
      collect(*e, used_attributes, used_values, used_nodes);
      move_queries(*e, moved);
    }
  auto move = [&](std::vector<PatternValue> values) {
    for (PatternValue& v : values) {
      if (v.node >= 0) v.node = moved[static_cast<std::size_t>(v.node)];
      if (v.variable >= 0) used_values.insert(v.variable);
    }
    return values;
  };
  rule.source_outputs = move(from);
  rule.target_outputs = move(to);
  auto within = [](const std::set<int>& part, const std::set<int>& whole) {
    return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
  };
  if (!within(used_attributes, bound_attributes) || !within(used_values, bound_values) || !within(used_nodes, first))
    return std::nullopt;
  return rule;
}

// Every way in which proofs use the axiom, as rules from what matches to what follows.
std::vector<Rule> directions(const Rule& axiom) {
  std::vector<Rule> all;
  if (axiom.one_way) return {directed(axiom, axiom.source_outputs, axiom.target_outputs).value()};
  if (auto forward = directed(axiom, axiom.source_outputs, axiom.target_outputs)) all.push_back(*forward);
  if (auto backward = directed(axiom, axiom.target_outputs, axiom.source_outputs)) all.push_back(*backward);
  // An operand that is expanded to a call around it (logic.cpp).
  for (std::size_t o = 0; o < axiom.source_outputs.size(); ++o) {
    PatternValue whole = axiom.source_outputs[o];
    if (axiom.target_outputs[o].node >= 0 || whole.node < 0) continue;
    for (PatternValue operand : axiom.nodes[static_cast<std::size_t>(whole.node)].inputs)
      if (operand.node >= 0)
        if (auto expanded = directed(axiom, {operand}, {whole})) {
          expanded->target_outputs = {whole.node == operand.node ? operand : expanded->target_outputs[0]};
          all.push_back(*expanded);
        }
  }
  return all;
}

void check_shape_facts(const Operator& op, const Attributes& attributes, const std::vector<Shape>& inputs,
                       const AxiomCheckOptions& options, AxiomCheck& check) {
  auto table = op.axes(attributes, inputs);
  if (!table.ok()) return;
  ShapeFacts facts = shape_facts(op, attributes, inputs, *table);
  int total = 0;
  for (const Shape& s : inputs) total += static_cast<int>(s.dims.size());
  std::int64_t largest = 2;
  for (std::int64_t m : {4, 3}) {
    std::int64_t count = 1;
    for (int d = 0; d < total && count <= 16 * options.shapes; ++d) count *= m;
    if (count <= 16 * options.shapes) {
      largest = m;
      break;
    }
  }
  std::vector<Shape> shapes = inputs;
  std::vector<std::int64_t*> sizes;
  for (Shape& s : shapes)
    for (std::int64_t& n : s.dims) sizes.push_back(&n);
  for (std::int64_t* n : sizes) *n = 1;
  auto size = [&](OperandDim d) {
    return shapes[static_cast<std::size_t>(d.operand)].dims[static_cast<std::size_t>(d.dim)];
  };
  for (;;) {
    ++check.shapes;
    if (auto here = op.axes(attributes, shapes); here.ok()) {
      ++check.typed;
      for (const auto& [a, b] : facts.required)
        if (size(a) != size(b)) check.fault = fmt::format("{} is well-typed with unequal sizes", op.name());
      bool same = true;
      for (const auto& [a, b] : facts.aligned) same = same && size(a) == size(b);
      for (OperandDim d : facts.ones) same = same && size(d) == 1;
      for (std::size_t o = 0; same && o < facts.outputs.size(); ++o) {
        Shape result = operand_shape(*here, here->outputs[o]);
        if (result.dims.size() != facts.outputs[o].size()) {
          check.fault = fmt::format("{}: result {} has rank {}", op.name(), o, result.dims.size());
          continue;
        }
        for (std::size_t j = 0; j < result.dims.size(); ++j) {
          const SizeSource& source = facts.outputs[o][j];
          std::int64_t expected = result.dims[j];
          if (source.kind == SizeSource::Kind::one) expected = 1;
          if (source.kind == SizeSource::Kind::operand) expected = size(source.dims[0]);
          if (source.kind == SizeSource::Kind::element)
            expected = ints_attribute(attributes, static_cast<std::size_t>(source.attribute))
                           .at(static_cast<std::size_t>(source.index));
          if (source.kind == SizeSource::Kind::sum) {
            expected = 0;
            for (OperandDim d : source.dims) expected += size(d);
          }
          if (result.dims[j] != expected)
            check.fault =
                fmt::format("{}: size {} of result {} is {}, expected {}", op.name(), j, o, result.dims[j], expected);
        }
      }
      ++check.evaluated;
    }
    std::size_t d = 0;
    while (d < sizes.size() && ++*sizes[d] > largest) *sizes[d++] = 1;
    if (d == sizes.size() || !check.fault.empty()) return;
  }
}

// Each operator's examples, once for each structure.
template <class Visit>
void for_each_example(Visit&& visit) {
  for (const Operator* op : all_operators()) {
    if (op->category() != OpCategory::compute) continue;
    std::set<Hash> seen;
    for (const Example& e : op->examples()) {
      Attributes attributes = complete_attributes(op->name(), op->attributes(), e.attributes).value();
      auto table = op->axes(attributes, e.inputs);
      if (table.ok() && seen.insert(hash_structure(*table)).second) visit(*op, attributes, e.inputs);
    }
  }
}

}  // namespace

AxiomCheck check_axiom(const std::string& name, const Rule& axiom,
                       const std::vector<std::optional<AttributeValue>>& bound, const AxiomCheckOptions& options) {
  AxiomCheck check{name, print(axiom), 0, 0, 0, {}};
  SmallShapes limits;
  limits.candidates = options.shapes * (axiom.values.size() <= 2 ? 64 : 1);
  for (const Rule& rule : directions(axiom)) {
    std::int64_t typed = 0, every = 1, evaluated = 0;
    check.shapes += for_each_small_instance(rule, bound, limits, [&](const auto& variables, const auto& attributes) {
      if (typed++ % every != 0) return true;
      Instantiation at = instantiate(rule, variables, attributes);
      if (at.fault == InstanceFault::source || at.fault == InstanceFault::condition) {
        --typed;
        return true;
      }
      if (axiom.one_way && at.fault == InstanceFault::target) {
        --typed;
        return true;
      }
      if (axiom.one_way) std::swap(at.instance.source, at.instance.target);
      bool expansion = rule.source_outputs.size() == 1 && rule.target_outputs[0].node >= 0 &&
                       nodes_under(rule, rule.target_outputs).contains(rule.source_outputs[0].node);
      if (at.fault == InstanceFault::target ||
          (!expansion && (at.fault != InstanceFault::none || !holds(at.instance)))) {
        check.fault = at.fault == InstanceFault::none ? "the sides differ" : at.why;
        for (const ParallelShape& v : variables) check.fault += "; " + to_string(v);
        for (const AttributeValue& a : attributes) check.fault += "; " + to_string(a);
        return false;
      }
      if (++evaluated % options.evaluated == 0) every *= 4;
      return true;
    });
    check.typed += typed;
    check.evaluated += evaluated;
    if (!check.fault.empty()) break;
  }
  if (check.evaluated == 0 && check.fault.empty()) check.fault = "no small shape is well-typed";
  return check;
}

std::vector<AxiomCheck> check_axioms(const AxiomCheckOptions& options) {
  std::vector<AxiomCheck> checks;
  for (const Rule& axiom : operator_axioms()) checks.push_back(check_axiom(axiom.name, axiom, {}, options));
  for_each_example([&](const Operator& op, const Attributes& attributes, const std::vector<Shape>& inputs) {
    for (const Schema& schema : schemas_of(op, attributes, inputs)) {
      std::vector<std::optional<AttributeValue>> bound;
      for (int a : schema.attributes)
        bound.push_back(a >= 0 ? std::optional(attributes[static_cast<std::size_t>(a)]) : std::nullopt);
      AxiomCheck check = check_axiom(schema.name, schema.axiom, bound, options);
      if (check.typed == 0 && check.evaluated == 0) check.fault.clear();  // it was evaluated at the example's sizes
      checks.push_back(std::move(check));
    }
    AxiomCheck facts{fmt::format("shape({})", op.name()), "sizes of results and operands", 0, 0, 0, {}};
    check_shape_facts(op, attributes, inputs, options, facts);
    checks.push_back(std::move(facts));
  });
  return checks;
}

std::vector<std::string> refuted_schemas() {
  std::set<std::string> names;
  for_each_example([&](const Operator& op, const Attributes& attributes, const std::vector<Shape>& inputs) {
    for (const Schema& schema : refuted_schemas_of(op, attributes, inputs)) names.insert(schema.name);
  });
  return {names.begin(), names.end()};
}

}  // namespace unity
