#include "core/rewrite/derive.h"

#include <algorithm>

namespace unity {
namespace {

std::string label(const Node& node) { return node.name.empty() ? node.op->name() : node.name; }

OperandShapes operand_shapes(const Pcg& pcg, const Node& node) {
  OperandShapes shapes;
  for (ValueRef v : node.inputs) shapes.push_back(pcg.shape(v));
  return shapes;
}

Result<const AxisTable*> table_of(const std::string& rule, const Node& node, int degree) {
  if (!node.is_free()) return fail("{}: {} is not a computation", rule, label(node));
  if (degree < 2) return fail("{}: {}: degree is {}, expected at least 2", rule, label(node), degree);
  return node.table.get();
}

Result<const Axis*> axis_of(const std::string& rule, const Pcg& pcg, NodeId id, int axis, int degree, bool uneven) {
  const Node& node = pcg[id];
  const AxisTable* table = UNITY_TRY(table_of(rule, node, degree));
  if (axis < 0 || axis >= static_cast<int>(table->axes.size()))
    return fail("{}: {} has no axis {}, expected 0 to {}", rule, label(node), axis,
                static_cast<int>(table->axes.size()) - 1);
  const Axis& a = table->axes[static_cast<std::size_t>(axis)];
  if (!can_split(*table, axis) && a.size > 1)
    return fail("{}: axis {} of {} must not be split", rule, a.name, label(node));
  Sharding now = node_sharding(pcg, id);
  auto index = static_cast<std::size_t>(axis);
  std::int64_t parts = static_cast<std::int64_t>(now.degrees[index]) * now.micro[index] * degree;
  if (a.size < parts || (a.size % parts != 0 && !uneven && a.role != AxisRole::window))
    return fail("{}: {} parts do not divide axis {} of {}, of size {}", rule, parts, a.name, label(node), a.size);
  return &a;
}

// Multiplies the degree of the dimensions that walk the axis. False when none does.
bool split_walking(const AxisTable& table, std::size_t input, int axis, int degree, ParallelShape& shape) {
  bool walks = false;
  for (std::size_t j = 0; j < shape.dims.size(); ++j)
    if (split_axis(table, table.inputs[input].dims[j]) == axis) {
      shape.dims[j].degree *= degree;
      walks = true;
    }
  return walks;
}

// Summands of a maximum and of a sum do not mix.
Result<void> check_monoid(const std::string& rule, const Pcg& pcg, NodeId id, const Axis& axis, int axis_index) {
  const Node& node = pcg[id];
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const OperandAxes& out = node.table->outputs[o];
    bool walked = std::any_of(out.dims.begin(), out.dims.end(),
                              [&](const DimAxes& dim) { return split_axis(*node.table, dim) == axis_index; });
    if (!walked && node.outputs[o].partials > 1 && node.outputs[o].monoid != axis.monoid)
      return fail("{}: a result of {} already holds partial values of another kind", rule, label(node));
  }
  return {};
}

Result<Pcg> relaid(const std::string& rule, const Pcg& pcg, NodeId node, OperandShapes shapes) {
  Layouts layouts(pcg.size());
  layouts[node.index()].push_back(std::move(shapes));
  auto result = relayout(pcg, layouts);
  if (!result.ok()) return fail("{}: {}", rule, result.error().message);
  return std::move(result->pcg);
}

// For every node, the operands at which a chain from one of its results ends.
std::vector<std::vector<Pcg::Use>> consumers(const Pcg& pcg) {
  std::vector<bool> stored = storage_ends(pcg, pcg.uses());
  std::vector<std::vector<Pcg::Use>> result(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    if (is_chain_link(node) && !stored[i]) continue;
    for (std::size_t j = 0; j < node.inputs.size(); ++j) {
      ValueRef source = chain_source(pcg, stored, node.inputs[j]);
      result[source.node.index()].push_back({NodeId(static_cast<std::int64_t>(i)), static_cast<int>(j), source.output});
    }
  }
  return result;
}

OperandShapes replicated_operands(const Pcg& pcg, const Node& node, int degree) {
  OperandShapes shapes = operand_shapes(pcg, node);
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (!node.table->inputs[i].shape_only) shapes[i].copies *= degree;
  return shapes;
}

// Whether every consumer can take results with `degree` times the copies, when those marked get `degree` times more
// too.
Result<void> can_replicate(const Pcg& pcg, const std::vector<Pcg::Use>& uses, NodeId id, int degree,
                           const std::vector<bool>& replicated) {
  const Node& node = pcg[id];
  std::string rule = "replicate_" + node.op->name();
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (!node.table->inputs[i].shape_only && pcg.shape(node.inputs[i]).partials > 1)
      return fail("{}: operand {} of {} holds partial sums, which can not be copied", rule, i, label(node));
  for (const Pcg::Use& use : uses) {
    const Node& user = pcg[use.user];
    if (user.table && user.table->inputs[static_cast<std::size_t>(use.operand)].shape_only) continue;
    int has = pcg.shape({id, use.output}).copies * degree;
    int wants = pcg.shape(user.inputs[static_cast<std::size_t>(use.operand)]).copies;
    if (replicated[use.user.index()]) wants *= degree;
    if (wants % has != 0)
      return fail("{}: {} uses {} with copies {}, expected a multiple of {}", rule, label(user), label(node), wants,
                  has);
  }
  return {};
}

}  // namespace

std::string shard_rule_name(const Node& node, int axis) {
  return fmt::format("shard_{}_{}", node.op->name(), node.table->axes.at(static_cast<std::size_t>(axis)).name);
}

std::string spread_rule_name(const Node& node, int axis) {
  return fmt::format("spread_{}_{}", node.op->name(), node.table->axes.at(static_cast<std::size_t>(axis)).name);
}

Result<OperandShapes> shard_operands(const Pcg& pcg, NodeId id, int axis, int degree, bool uneven) {
  const Node& node = pcg[id];
  std::string rule = "shard_" + node.op->name();
  const Axis* a = UNITY_TRY(axis_of(rule, pcg, id, axis, degree, uneven));
  Result<void> monoid = check_monoid(rule, pcg, id, *a, axis);
  if (!monoid.ok()) return monoid.error();
  OperandShapes shapes = operand_shapes(pcg, node);
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (!split_walking(*node.table, i, axis, degree, shapes[i]) && !node.table->inputs[i].shape_only)
      shapes[i].copies *= degree;
  return shapes;
}

Result<OperandShapes> spread_operands(const Pcg& pcg, NodeId id, int axis, int degree, bool uneven) {
  const Node& node = pcg[id];
  std::string rule = "spread_" + node.op->name();
  const Axis* a = UNITY_TRY(axis_of(rule, pcg, id, axis, degree, uneven));
  Result<void> monoid = check_monoid(rule, pcg, id, *a, axis);
  if (!monoid.ok()) return monoid.error();
  int copies = node_sharding(pcg, id).copies;
  if (copies % degree != 0)
    return fail("{}: {} is computed {} times, expected a multiple of {}", rule, label(node), copies, degree);
  OperandShapes shapes = operand_shapes(pcg, node);
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (split_walking(*node.table, i, axis, degree, shapes[i]) && !node.table->inputs[i].shape_only)
      shapes[i].copies /= degree;
  return shapes;
}

Result<Pcg> apply_shard(const Pcg& pcg, NodeId node, int axis, int degree) {
  OperandShapes shapes = UNITY_TRY(shard_operands(pcg, node, axis, degree));
  return relaid(shard_rule_name(pcg[node], axis), pcg, node, std::move(shapes));
}

Result<Pcg> apply_spread(const Pcg& pcg, NodeId node, int axis, int degree) {
  OperandShapes shapes = UNITY_TRY(spread_operands(pcg, node, axis, degree));
  return relaid(spread_rule_name(pcg[node], axis), pcg, node, std::move(shapes));
}

Result<Pcg> apply_replicate(const Pcg& pcg, NodeId id, int degree) {
  const Node& node = pcg[id];
  std::string rule = "replicate_" + node.op->name();
  UNITY_TRY(table_of(rule, node, degree));
  Result<void> possible =
      can_replicate(pcg, consumers(pcg)[id.index()], id, degree, std::vector<bool>(pcg.size(), false));
  if (!possible.ok()) return possible.error();
  return relaid(rule, pcg, id, replicated_operands(pcg, node, degree));
}

Result<Pcg> apply_replicate_everywhere(const Pcg& pcg, int degree, std::vector<DerivationEvent>* log) {
  if (degree < 2) return fail("replicate: degree is {}, expected at least 2", degree);
  auto uses = consumers(pcg);
  std::vector<bool> replicated(pcg.size(), false);
  Layouts layouts(pcg.size());
  std::vector<DerivationEvent> events;
  for (std::size_t i = pcg.size(); i-- > 0;) {
    NodeId id(static_cast<std::int64_t>(i));
    if (!pcg[id].is_free() || !can_replicate(pcg, uses[i], id, degree, replicated).ok()) continue;
    replicated[i] = true;
    layouts[i].push_back(replicated_operands(pcg, pcg[id], degree));
    events.push_back({"replicate_" + pcg[id].op->name(), label(pcg[id]), degree});
  }
  if (events.empty()) return fail("replicate: no value is used with copies only, {} of them", degree);
  Relaid result = UNITY_TRY(relayout(pcg, layouts));
  if (log) log->insert(log->end(), events.begin(), events.end());
  return std::move(result.pcg);
}

Result<Pcg> apply_reduce(const Pcg& pcg, NodeId id, int operand, int degree) {
  const Node& node = pcg[id];
  std::string rule = "reduce_" + node.op->name();
  const AxisTable* table = UNITY_TRY(table_of(rule, node, degree));
  if (operand < 0 || operand >= static_cast<int>(node.inputs.size()))
    return fail("{}: {} has no operand {}", rule, label(node), operand);
  if (table->linearity == Linearity::none || !table->inputs[static_cast<std::size_t>(operand)].linear)
    return fail("{}: {} is not linear in operand {}", rule, label(node), operand);
  OperandShapes shapes = operand_shapes(pcg, node);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    bool partial = table->linearity == Linearity::joint ? table->inputs[i].linear : static_cast<int>(i) == operand;
    if (table->inputs[i].shape_only) continue;
    if (partial)
      shapes[i].partials *= degree;
    else
      shapes[i].copies *= degree;
  }
  return relaid(rule, pcg, id, std::move(shapes));
}

}  // namespace unity
