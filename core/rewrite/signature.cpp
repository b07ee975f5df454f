#include "core/rewrite/signature.h"

#include <algorithm>

namespace unity {
namespace {

Hash hash_operand(const AxisTable& table, const OperandAxes& operand) {
  Hash h = combine(static_cast<Hash>(operand.dtype), operand.linear * 2 + operand.shape_only);
  for (const DimAxes& dim : operand.dims) {
    h = combine(h, static_cast<Hash>(split_axis(table, dim) + 1) * 2 + dim.window.has_value());
    for (int axis : dim.axes) {
      bool one = dim.axes.size() > 1 && table.axes[static_cast<std::size_t>(axis)].size == 1;
      h = combine(h, static_cast<Hash>(axis) * 2 + one);
    }
  }
  return h;
}

// The instance's nodes in the order in which `instantiate` adds those of the rule: on demand, operands first.
class NodeFinder {
 public:
  NodeFinder(const Rule& rule, const RuleInstance& instance)
      : rule_(rule),
        instance_(instance),
        nodes_(rule.nodes.size()),
        next_(instance.source.size() - rule.source_nodes),
        seen_(rule.nodes.size(), false) {}

  std::vector<const Node*> run() {
    for (std::size_t n = 0; n < rule_.source_nodes; ++n) nodes_[n] = &instance_.source.nodes()[next_ + n];
    for (PatternValue v : rule_.target_outputs) visit(v);
    return nodes_;
  }

 private:
  void visit(PatternValue v) {
    if (v.node < 0 || seen_[static_cast<std::size_t>(v.node)]) return;
    auto n = static_cast<std::size_t>(v.node);
    seen_[n] = true;
    for (PatternValue in : rule_.nodes[n].inputs) visit(in);
    const Node& node = instance_.target.nodes()[next_++];
    UNITY_CHECK(node.op == rule_.nodes[n].op, "found {}, expected {}", node.op->name(), rule_.nodes[n].op->name());
    if (n >= rule_.source_nodes) nodes_[n] = &node;
  }

  const Rule& rule_;
  const RuleInstance& instance_;
  std::vector<const Node*> nodes_;
  std::size_t next_;
  std::vector<bool> seen_;
};

bool mentions(const Expression& e, int variable) {
  if (e.kind == Expression::Kind::variable) return e.variable == variable;
  return std::any_of(e.arguments.begin(), e.arguments.end(),
                     [&](const Expression& a) { return mentions(a, variable); });
}

// In the place of a dimension: of dim() and degree().
bool selects_dimension(const Expression& e, int variable) {
  if (e.kind == Expression::Kind::shape)
    return std::any_of(e.arguments.begin(), e.arguments.end(),
                       [&](const Expression& a) { return mentions(a, variable); });
  return std::any_of(e.arguments.begin(), e.arguments.end(),
                     [&](const Expression& a) { return selects_dimension(a, variable); });
}

std::vector<Shape> operand_shapes(const Node& node, const Pcg& pcg) {
  std::vector<Shape> shapes;
  for (ValueRef v : node.inputs) shapes.push_back(pcg.shape(v).shape());
  return shapes;
}

// Whether its other values than 0 and 1 are refused.
bool is_flag(const Node& node, const std::vector<Shape>& shapes, std::size_t attribute) {
  auto taken = [&](std::int64_t value) {
    Attributes attributes = node.attributes;
    attributes[attribute] = value;
    return node.op->axes(attributes, shapes).ok();
  };
  return taken(0) && taken(1) && !taken(2) && !taken(-1);
}

// Whether the node's table has another structure with another value of the attribute, or this is a flag, on which what
// is computed may depend though the table does not.
bool decides(const Node& node, const Pcg& pcg, std::size_t attribute) {
  const auto* value = std::get_if<std::int64_t>(&node.attributes[attribute]);
  if (!value) return std::holds_alternative<std::string>(node.attributes[attribute]);
  auto shapes = operand_shapes(node, pcg);
  if (is_flag(node, shapes, attribute)) return true;
  Hash is = hash_structure(*node.table);
  bool same = false;
  for (std::int64_t other : {*value + 1, *value - 1, *value * 2, *value / 2}) {
    if (other == *value) continue;
    Attributes attributes = node.attributes;
    attributes[attribute] = other;
    auto table = node.op->axes(attributes, shapes);
    if (!table.ok()) continue;
    if (hash_structure(*table) != is) return true;
    same = true;
  }
  return !same;
}

}  // namespace

Hash hash_structure(const AxisTable& table) {
  Hash h = static_cast<Hash>(table.linearity);
  for (const Axis& axis : table.axes) h = combine(h, static_cast<Hash>(axis.role) * 2 + static_cast<Hash>(axis.monoid));
  for (const OperandAxes& operand : table.inputs) h = combine(h, hash_operand(table, operand));
  h = combine(h, table.inputs.size());
  for (const OperandAxes& operand : table.outputs) h = combine(h, hash_operand(table, operand));
  return h;
}

RuleSignature signature_of(const Rule& rule, const RuleOccurrence& at) {
  RuleSignature s;
  s.symbolic.assign(rule.attributes.size(), true);
  for (std::size_t a = 0; a < rule.attributes.size(); ++a) {
    auto variable = static_cast<int>(a);
    for (std::size_t n = 0; n < rule.nodes.size(); ++n) {
      const PatternNode& pattern = rule.nodes[n];
      auto specs = pattern.op->attributes();
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (!pattern.attributes[i]) continue;
        const Expression& e = *pattern.attributes[i];
        if (!mentions(e, variable)) continue;
        if (selects_dimension(e, variable)) s.symbolic[a] = false;
        if (pattern.op->category() == OpCategory::parallelization)
          s.symbolic[a] = s.symbolic[a] && specs[i].name != "dim";
        else if (e.kind != Expression::Kind::list &&
                 decides(*at.nodes[n], n < rule.source_nodes ? at.source : at.target, i))
          s.symbolic[a] = false;
      }
    }
    for (const Condition& c : rule.conditions)
      if (selects_dimension(c.left, variable) || selects_dimension(c.right, variable)) s.symbolic[a] = false;
  }

  for (const ParallelShape& shape : at.variables) {
    s.logical = combine(s.logical, shape.dims.size() << 8 | static_cast<Hash>(shape.dtype));
    s.parallel = combine(s.parallel, shape.partials > 1);
    for (const ParallelDim& dim : shape.dims) s.parallel = combine(s.parallel, dim.micro > 1);
  }
  for (std::size_t a = 0; a < rule.attributes.size(); ++a) {
    const auto* list = std::get_if<Integers>(&at.attributes[a]);
    s.logical = combine(s.logical, !s.symbolic[a] ? hash_attributes({at.attributes[a]}) : list ? list->size() : 0);
  }
  for (const Node* node : at.nodes) {
    if (node->is_compute()) s.logical = combine(s.logical, hash_structure(*node->table));
    for (const ParallelShape& out : node->outputs) {
      s.logical = combine(s.logical, out.dims.size());
      s.parallel = combine(s.parallel, static_cast<Hash>(out.partials > 1) * 2 + static_cast<Hash>(out.monoid));
      for (const ParallelDim& dim : out.dims) s.parallel = combine(s.parallel, dim.micro > 1);
    }
  }
  s.parallel = combine(s.parallel, s.logical);
  return s;
}

InstanceSignature signature_of(const Rule& rule, const RuleInstance& instance) {
  RuleOccurrence at{instance.source, instance.target, NodeFinder(rule, instance).run(), instance.variables,
                    instance.attributes};
  InstanceSignature s{signature_of(rule, at), std::move(at.nodes), {}};
  for (std::size_t v = 0; v < instance.variables.size(); ++v)
    s.ranks += fmt::format("{}{}:{}", v ? " " : "", rule.values[v], instance.variables[v].dims.size());
  return s;
}

}  // namespace unity
