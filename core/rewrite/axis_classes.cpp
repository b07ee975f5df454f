#include "core/rewrite/axis_classes.h"

#include <algorithm>
#include <map>

#include "core/base/union_find.h"

namespace unity {
namespace {

class Linker {
 public:
  explicit Linker(const Pcg& pcg) : pcg_(pcg), stored_(pcg.size(), false), first_(pcg.size(), -1) {
    for (std::size_t i = 0; i < pcg.size(); ++i) {
      const Node& node = pcg.nodes()[i];
      if (!node.is_free()) continue;
      first_[i] = static_cast<int>(axes_.size());
      for (std::size_t a = 0; a < node.table->axes.size(); ++a)
        axes_.push_back({NodeId(static_cast<std::int64_t>(i)), static_cast<int>(a)});
    }
  }

  std::vector<AxisClass> run() {
    UnionFind sets(axes_.size());
    // The dimension of a leaf, as the first axis that walks it.
    std::map<std::pair<ValueRef, std::size_t>, int> leaf_dims;
    for (const Node& node : pcg_.nodes()) {
      if (!node.is_free()) continue;
      auto n = static_cast<std::size_t>(&node - pcg_.nodes().data());
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        ValueRef source = chain_source(pcg_, stored_, node.inputs[i]);
        for (std::size_t j = 0; j < node.table->inputs[i].dims.size(); ++j) {
          int here = index(n, split_axis(*node.table, node.table->inputs[i].dims[j]));
          if (here < 0) continue;
          int there = index_of_result(source, j);
          if (pcg_[source.node].is_leaf()) there = leaf_dims.emplace(std::make_pair(source, j), here).first->second;
          if (there >= 0) sets.join(static_cast<std::size_t>(here), static_cast<std::size_t>(there));
        }
      }
    }
    return collect(sets);
  }

 private:
  // The position of a node's axis among all axes; -1 when it can not be split.
  int index(std::size_t node, int axis) const {
    if (axis < 0 || first_[node] < 0 || !can_split(*pcg_.nodes()[node].table, axis)) return -1;
    return first_[node] + axis;
  }

  int index_of_result(ValueRef v, std::size_t dim) const {
    const Node& node = pcg_[v.node];
    if (!node.is_free()) return -1;
    return index(v.node.index(),
                 split_axis(*node.table, node.table->outputs[static_cast<std::size_t>(v.output)].dims[dim]));
  }

  std::vector<AxisClass> collect(UnionFind& sets) const {
    std::vector<AxisClass> classes;
    std::map<std::size_t, std::size_t> class_of;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const Node& node = pcg_[axes_[i].node];
      if (!can_split(*node.table, axes_[i].axis)) continue;
      auto [found, inserted] = class_of.emplace(sets.find(i), classes.size());
      if (inserted) classes.emplace_back();
      AxisClass& c = classes[found->second];
      if (c.members.empty() || c.members.back().node != axes_[i].node) {
        c.members.push_back(axes_[i]);
        continue;
      }
      // Two axes of one node (queries and keys of self-attention): the parallel one comes first.
      AxisClassMember& chosen = c.members.back();
      auto reduces = [&](int axis) {
        return node.table->axes[static_cast<std::size_t>(axis)].role == AxisRole::reduction;
      };
      c.others.push_back(axes_[i]);
      if (reduces(chosen.axis) && !reduces(axes_[i].axis)) std::swap(chosen, c.others.back());
    }
    for (AxisClass& c : classes) {
      const Node& node = pcg_[c.members[0].node];
      c.name = fmt::format("{} of {}", node.table->axes[static_cast<std::size_t>(c.members[0].axis)].name,
                           node.name.empty() ? node.op->name() : node.name);
    }
    return classes;
  }

  const Pcg& pcg_;
  std::vector<bool> stored_;
  std::vector<AxisClassMember> axes_;  // of all compute nodes
  std::vector<int> first_;             // by node: where its axes start
};

std::optional<std::size_t> class_of(const std::vector<AxisClass>& classes, AxisClassMember member) {
  auto holds = [&](const std::vector<AxisClassMember>& list) {
    return std::find(list.begin(), list.end(), member) != list.end();
  };
  for (std::size_t c = 0; c < classes.size(); ++c)
    if (holds(classes[c].members) || holds(classes[c].others)) return c;
  return std::nullopt;
}

}  // namespace

std::vector<AxisClass> axis_classes(const Pcg& pcg) { return Linker(pcg).run(); }

std::optional<std::size_t> class_of_dimension(const Pcg& pcg, const std::vector<AxisClass>& classes, ValueRef value,
                                              int dim) {
  auto j = static_cast<std::size_t>(dim);
  std::vector<bool> stored(pcg.size(), false);
  ValueRef source = chain_source(pcg, stored, value);
  const Node& producer = pcg[source.node];
  if (producer.is_compute()) {
    int axis = split_axis(*producer.table, producer.table->outputs[static_cast<std::size_t>(source.output)].dims[j]);
    return class_of(classes, {source.node, axis});
  }
  for (std::size_t n = 0; n < pcg.size(); ++n) {
    const Node& node = pcg.nodes()[n];
    if (!node.is_compute()) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (chain_source(pcg, stored, node.inputs[i]) != source) continue;
      int axis = split_axis(*node.table, node.table->inputs[i].dims[j]);
      if (auto found = class_of(classes, {NodeId(static_cast<std::int64_t>(n)), axis})) return found;
    }
  }
  return std::nullopt;
}

Result<Pcg> shard_class(const Pcg& pcg, const AxisClass& axis_class, int degree, std::vector<DerivationEvent>* log,
                        bool uneven) {
  Layouts layouts(pcg.size());
  std::vector<std::vector<std::string>> rules(pcg.size());
  // Windows may be split unevenly, and then what else walks the same dimension is.
  uneven = uneven || std::any_of(axis_class.members.begin(), axis_class.members.end(), [&](AxisClassMember m) {
             return pcg[m.node].table->axes[static_cast<std::size_t>(m.axis)].role == AxisRole::window;
           });
  for (AxisClassMember m : axis_class.members) {
    const Node& node = pcg[m.node];
    auto& alternatives = layouts[m.node.index()];
    auto spread = node_sharding(pcg, m.node).copies > 1 ? spread_operands(pcg, m.node, m.axis, degree, uneven)
                                                        : Result<OperandShapes>(Error{"computed once"});
    if (spread.ok()) {
      alternatives.push_back(std::move(*spread));
      rules[m.node.index()].push_back(spread_rule_name(node, m.axis));
    }
    alternatives.push_back(UNITY_TRY(shard_operands(pcg, m.node, m.axis, degree, uneven)));
    rules[m.node.index()].push_back(shard_rule_name(node, m.axis));
  }
  auto relaid = relayout(pcg, layouts);
  if (!relaid.ok()) return fail("class {} by {}: {}", axis_class.name, degree, relaid.error().message);
  if (log)
    for (AxisClassMember m : axis_class.members)
      log->push_back(
          {rules[m.node.index()][static_cast<std::size_t>(relaid->chosen[m.node.index()])], pcg[m.node].name, degree});
  return std::move(relaid->pcg);
}

}  // namespace unity
