#include "core/graph/pcg.h"

#include <algorithm>
#include <set>

namespace unity {
namespace {

// Further on, elements are counted in 63 bits (in bytes, over all tensors, with paddings), and parts in 31.
Result<void> check_sizes(const Operator& op, const std::vector<ParallelShape>& outputs) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 48, kMostParts = std::int64_t{1} << 20;
  for (const ParallelShape& shape : outputs) {
    std::int64_t elements = 1, parts = 1;
    auto multiply = [](std::int64_t& product, std::int64_t factor, std::int64_t most) {
      if (__builtin_mul_overflow(product, factor, &product) || product > most) product = most + 1;
    };
    for (const ParallelDim& dim : shape.dims) {
      multiply(elements, dim.size, kMostElements);
      multiply(parts, std::int64_t{dim.degree} * dim.micro, kMostParts);
    }
    multiply(parts, std::int64_t{shape.copies} * shape.partials, kMostParts);
    if (elements > kMostElements)
      return fail("{}: result {} has too many elements, expected at most 2^48", op.name(), to_string(shape));
    if (parts > kMostParts)
      return fail("{}: result {} has too many parts, expected at most 2^20", op.name(), to_string(shape));
  }
  return {};
}

}  // namespace

Result<NodeId> Pcg::try_add(const Operator& op, Attributes attributes, std::vector<ValueRef> inputs, OriginId origin,
                            std::string name) {
  Node node;
  node.op = &op;
  node.attributes = UNITY_TRY(complete_attributes(op.name(), op.attributes(), std::move(attributes)));
  std::vector<ParallelShape> shapes;
  std::vector<Shape> logical;
  for (ValueRef v : inputs) {
    UNITY_CHECK(v.node.valid() && v.node.index() < nodes_.size() &&
                    static_cast<std::size_t>(v.output) < nodes_[v.node.index()].outputs.size(),
                "operand {} of {} does not exist", v.node, op.name());
    shapes.push_back(shape(v));
    logical.push_back(shapes.back().shape());
  }
  Arity arity = op.arity();
  int n = static_cast<int>(inputs.size());
  if (n < arity.min || (arity.max >= 0 && n > arity.max))
    return fail("{}: found {} operands, expected {}", op.name(), n,
                arity.max < 0 ? fmt::format("at least {}", arity.min) : fmt::format("{}", arity.max));
  if (op.category() != OpCategory::compute) node.outputs = UNITY_TRY(op.parallel_shapes(node.attributes, shapes));
  if (op.category() == OpCategory::leaf) {
    node.table = std::make_shared<const AxisTable>(UNITY_TRY(op.axes(node.attributes, logical)));
  } else if (op.category() == OpCategory::compute) {
    node.table = std::make_shared<const AxisTable>(UNITY_TRY(op.axes(node.attributes, logical)));
    Sharding sharding = UNITY_TRY(infer_sharding(op.name(), *node.table, shapes));
    for (std::size_t i = 0; i < node.table->outputs.size(); ++i)
      node.outputs.push_back(output_parallel_shape(*node.table, sharding, i));
  }
  UNITY_TRY_VOID(check_sizes(op, node.outputs));
  node.inputs = std::move(inputs);
  node.origin = origin;
  node.name = std::move(name);
  return append(std::move(node));
}

Result<NodeId> Pcg::try_add_like(const Node& model, std::vector<ValueRef> inputs) {
  if (!model.is_compute() && !model.is_leaf())
    return try_add(*model.op, model.attributes, std::move(inputs), model.origin, model.name);
  Node node = model;
  node.inputs = std::move(inputs);
  if (model.is_compute()) {
    std::vector<ParallelShape> shapes;
    for (ValueRef v : node.inputs) shapes.push_back(shape(v));
    Sharding sharding = UNITY_TRY(infer_sharding(node.op->name(), *node.table, shapes));
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      node.outputs[i] = output_parallel_shape(*node.table, sharding, i);
  }
  return append(std::move(node));
}

NodeId Pcg::append(Node node) {
  NodeId id(static_cast<std::int64_t>(nodes_.size()));
  for (ValueRef v : node.inputs) ++users_[v.node.index()].count, users_[v.node.index()].last = id;
  nodes_.push_back(std::move(node));
  users_.emplace_back();
  return id;
}

std::vector<std::vector<Pcg::Use>> Pcg::uses() const {
  std::vector<std::vector<Use>> uses(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (std::size_t j = 0; j < nodes_[i].inputs.size(); ++j) {
      ValueRef v = nodes_[i].inputs[j];
      uses[v.node.index()].push_back({NodeId(static_cast<std::int64_t>(i)), static_cast<int>(j), v.output});
    }
  return uses;
}

Pcg Pcg::without_dead_nodes() const {
  std::vector<bool> alive(nodes_.size(), false);
  for (ValueRef v : outputs_) alive[v.node.index()] = true;
  for (std::size_t i = nodes_.size(); i-- > 0;)
    if (alive[i])
      for (ValueRef v : nodes_[i].inputs) alive[v.node.index()] = true;
  Pcg result;
  result.name_ = name_;
  std::vector<NodeId> moved(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!alive[i]) continue;
    Node node = nodes_[i];
    for (ValueRef& v : node.inputs) v.node = moved[v.node.index()];
    moved[i] = result.append(std::move(node));
  }
  for (ValueRef v : outputs_) result.outputs_.push_back({moved[v.node.index()], v.output});
  return result;
}

Sharding node_sharding(const Pcg& pcg, NodeId id) {
  const Node& node = pcg[id];
  UNITY_CHECK(node.table, "{} has no computation", node.op->name());
  std::vector<ParallelShape> shapes;
  for (ValueRef v : node.inputs) shapes.push_back(pcg.shape(v));
  return infer_sharding(node.op->name(), *node.table, shapes).value();
}

ParallelShape storage_shape(const Pcg& pcg, NodeId leaf) {
  if (pcg[leaf].op->name() == "boundary") return pcg.shape({leaf, 0});
  static const Operator &partition = get_operator("partition"), &replicate = get_operator("replicate");
  NodeId at = leaf;
  for (NodeId user = pcg.only_user(at); user.valid(); user = pcg.only_user(at)) {
    if (pcg[user].op != &partition && pcg[user].op != &replicate) break;
    at = user;
  }
  return pcg.shape({at, 0});
}

TaskGrid node_grid(const Pcg& pcg, NodeId id) {
  const Node& node = pcg[id];
  if (node.is_leaf()) return storage_grid(storage_shape(pcg, id));
  if (!node.table) return {};
  return task_grid(*node.table, node_sharding(pcg, id));
}

Result<void> check_well_formed(const Pcg& pcg) {
  std::set<std::string> leaf_names;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    std::vector<ParallelShape> shapes;
    for (ValueRef v : node.inputs) {
      if (v.node.index() >= i) return fail("node {} ({}) comes before its operand {}", i, node.op->name(), v.node);
      shapes.push_back(pcg.shape(v));
    }
    auto inferred = UNITY_TRY(infer_parallel_shapes(*node.op, node.attributes, shapes));
    if (inferred != node.outputs)
      return fail("node {} ({}) has shapes that its operands do not give", i, node.op->name());
    if (node.is_leaf() && !leaf_names.insert(node.name).second) return fail("two leaves are named '{}'", node.name);
    if (node.is_leaf() && node.name.empty())
      return fail("node {} ({}) has no name, expected one for a leaf", i, node.op->name());
  }
  if (pcg.outputs().empty()) return fail("graph '{}' has no output", pcg.name());
  for (ValueRef v : pcg.outputs()) {
    if (!v.node.valid() || v.node.index() >= pcg.size() || v.output < 0 ||
        static_cast<std::size_t>(v.output) >= pcg[v.node].outputs.size())
      return fail("an output of graph '{}' does not exist", pcg.name());
  }
  return {};
}

Hash canonical_hash(const Pcg& pcg) {
  Integers number(pcg.size(), -1);
  std::int64_t next = 0;
  Hash hash = mix(pcg.outputs().size());
  std::vector<std::pair<NodeId, std::size_t>> stack;  // explicit: graphs may be deep
  for (ValueRef out : pcg.outputs()) {
    if (number[out.node.index()] < 0) stack.emplace_back(out.node, 0);
    while (!stack.empty()) {
      auto& [id, operand] = stack.back();
      const Node& node = pcg[id];
      if (number[id.index()] >= 0) {
        stack.pop_back();
      } else if (operand < node.inputs.size()) {
        NodeId child = node.inputs[operand++].node;
        if (number[child.index()] < 0) stack.emplace_back(child, 0);
      } else {
        number[id.index()] = next++;
        Hash h = combine(hash_text(node.op->name()), hash_attributes(node.attributes));
        for (ValueRef v : node.inputs)
          h = combine(h, static_cast<Hash>(number[v.node.index()]) << 8 | static_cast<Hash>(v.output));
        for (const ParallelShape& s : node.outputs) h = combine(h, hash_shape(s));
        hash = combine(hash, h);
        stack.pop_back();
      }
    }
    hash = combine(hash, static_cast<Hash>(number[out.node.index()]) << 8 | static_cast<Hash>(out.output));
  }
  return hash;
}

}  // namespace unity
