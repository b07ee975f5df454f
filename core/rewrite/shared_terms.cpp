#include "core/rewrite/shared_terms.h"

#include <algorithm>

namespace unity {
namespace {

Hash key_of(const Operator& op, const Attributes& attributes, const std::vector<ValueRef>& inputs) {
  Hash h = combine(reinterpret_cast<std::uintptr_t>(&op), hash_attributes(attributes));
  for (ValueRef v : inputs) h = combine(h, static_cast<Hash>(v.node.index()) << 8 | static_cast<Hash>(v.output));
  return h;
}

// How many nodes instantiate() (instance.h) lays a variable out with.
std::size_t layout_nodes(const ParallelShape& shape) {
  std::size_t count = shape.copies > 1 ? 2 : 1;
  for (const ParallelDim& dim : shape.dims) count += (dim.degree > 1) + (dim.micro > 1);
  return shape.partials == 1 ? count : count * static_cast<std::size_t>(shape.partials) + 1;
}

}  // namespace

Result<NodeId> SharedTerms::add(const Operator& op, const Attributes& attributes, std::vector<ValueRef> inputs) {
  if (inputs.size() == 2 && op.commutative() && inputs[1] < inputs[0]) std::swap(inputs[0], inputs[1]);
  std::vector<Entry>& entries = nodes_[key_of(op, attributes, inputs)];
  const Entry* known = nullptr;
  for (const Entry& entry : entries)
    if (entry.op == &op && entry.inputs == inputs && entry.attributes == attributes) known = &entry;
  if (!known) {
    auto added = pcg_.try_add(op, attributes, inputs);
    entries.push_back({&op, attributes, std::move(inputs), added.ok() ? *added : NodeId{}});
    if (!added.ok()) return added.error();
    opaque_.push_back(false);
    return *added;
  }
  if (!known->id.valid()) return fail("{}: ill-typed", op.name());
  return known->id;
}

// An opaque node: a leaf, or what lays out the variable of that name.
Result<NodeId> SharedTerms::copy(const Node& node, std::vector<ValueRef> inputs, const std::string& variable) {
  auto key = std::make_tuple(variable + "\n" + node.name, node.op, node.attributes, inputs);
  auto known = opaque_nodes_.find(key);
  if (known != opaque_nodes_.end()) return known->second;
  NodeId id = UNITY_TRY(pcg_.try_add(*node.op, node.attributes, std::move(inputs), node.origin, node.name));
  opaque_.push_back(true);
  opaque_nodes_.emplace(std::move(key), id);
  return id;
}

Result<std::vector<ValueRef>> SharedTerms::import(const Pcg& pcg) { return import(pcg, {}); }

Result<std::vector<ValueRef>> SharedTerms::import(const Pcg& side, const std::vector<ParallelShape>& variables) {
  std::vector<std::string> layout;  // by node that lays out a variable: its name and shape
  for (std::size_t v = 0; v < variables.size(); ++v)
    layout.resize(layout.size() + layout_nodes(variables[v]), fmt::format("{} {}", v, to_string(variables[v])));
  std::vector<NodeId> moved(side.size());
  for (std::size_t i = 0; i < side.size(); ++i) {
    const Node& node = side.nodes()[i];
    std::vector<ValueRef> inputs = node.inputs;
    for (ValueRef& v : inputs) v.node = moved[v.node.index()];
    if (node.is_leaf() && node.name.empty()) return fail("a leaf of the graph has no name");
    moved[i] = i < layout.size() || node.is_leaf()
                   ? UNITY_TRY(copy(node, std::move(inputs), i < layout.size() ? layout[i] : ""))
                   : UNITY_TRY(add(*node.op, node.attributes, std::move(inputs)));
  }
  std::vector<ValueRef> outputs = side.outputs();
  for (ValueRef& v : outputs) v.node = moved[v.node.index()];
  return outputs;
}

std::vector<NodeId> SharedTerms::reach(const std::vector<ValueRef>& values) const {
  std::vector<NodeId> found;
  auto visit = [&](auto&& self, NodeId id) -> void {
    if (opaque_[id.index()] || std::find(found.begin(), found.end(), id) != found.end()) return;
    for (ValueRef v : pcg_[id].inputs) self(self, v.node);
    found.push_back(id);
  };
  for (ValueRef v : values) visit(visit, v.node);
  return found;
}

Result<std::vector<ValueRef>> SharedTerms::replace(const std::vector<ValueRef>& values,
                                                   const std::map<ValueRef, ValueRef>& replacements) {
  std::map<NodeId, NodeId> moved;
  auto value = [&](ValueRef v) {
    auto replaced = replacements.find(v);
    if (replaced != replacements.end()) return replaced->second;
    auto node = moved.find(v.node);
    return node == moved.end() ? v : ValueRef{node->second, v.output};
  };
  for (NodeId id : reach(values)) {
    std::vector<ValueRef> inputs = pcg_[id].inputs;
    bool changed = false;
    for (ValueRef& v : inputs) {
      ValueRef now = value(v);
      changed |= now != v;
      v = now;
    }
    if (!changed) continue;
    const Operator& op = *pcg_[id].op;
    Attributes attributes = pcg_[id].attributes;  // adding moves the nodes
    moved[id] = UNITY_TRY(add(op, attributes, std::move(inputs)));
  }
  std::vector<ValueRef> result = values;
  for (ValueRef& v : result) v = value(v);
  return result;
}

Pcg SharedTerms::graph(const std::vector<ValueRef>& outputs) const {
  Pcg result;
  std::map<NodeId, NodeId> moved;
  auto visit = [&](auto&& self, NodeId id) -> NodeId {
    auto known = moved.find(id);
    if (known != moved.end()) return known->second;
    const Node& node = pcg_[id];
    std::vector<ValueRef> inputs = node.inputs;
    for (ValueRef& v : inputs) v.node = self(self, v.node);
    return moved[id] = result.try_add(*node.op, node.attributes, std::move(inputs), node.origin, node.name).value();
  };
  std::vector<ValueRef> values = outputs;
  for (ValueRef& v : values) v.node = visit(visit, v.node);
  result.set_outputs(std::move(values));
  return result;
}

}  // namespace unity
