// The parallel computation graph: computation, parallelism and data movement in one graph (paper, section 3).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/ops/operator.h"

namespace unity {

// The `output`-th result of a node.
struct ValueRef {
  NodeId node;
  int output = 0;
  auto operator<=>(const ValueRef&) const = default;
};

struct Node {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<ValueRef> inputs;
  std::vector<ParallelShape> outputs;      // inferred, never set by hand
  std::shared_ptr<const AxisTable> table;  // of compute operators and leaves
  OriginId origin;                         // which operator of the model this stems from; stable through rewriting
  std::string name;  // label; "encoder.3.attention.query". Leaves: unique, names the weight or input

  bool is_leaf() const { return op->category() == OpCategory::leaf; }
  bool is_parallelization() const { return op->category() == OpCategory::parallelization; }
  bool is_compute() const { return op->category() == OpCategory::compute; }
  bool is_free() const { return is_compute() && !op->pinned(); }  // its layout may be chosen
};

// A value type. Nodes stand in topological order: a node's inputs come before it. Shapes are inferred on insertion, so
// every Pcg is well-typed; check_well_formed() verifies the rest.
class Pcg {
 public:
  // Appends a node. Error when the operands do not fit (names operator, operand, dimension, found, expected).
  Result<NodeId> try_add(const Operator& op, Attributes attributes, std::vector<ValueRef> inputs, OriginId origin = {},
                         std::string name = {});

  // The same operator (of another graph, say) on operands of the same logical shapes in layouts of their own.
  Result<NodeId> try_add_like(const Node& model, std::vector<ValueRef> inputs);

  const Node& node(NodeId id) const { return nodes_.at(id.index()); }
  const Node& operator[](NodeId id) const { return nodes_[id.index()]; }
  const std::vector<Node>& nodes() const { return nodes_; }
  std::size_t size() const { return nodes_.size(); }
  const ParallelShape& shape(ValueRef v) const {
    return nodes_[v.node.index()].outputs[static_cast<std::size_t>(v.output)];
  }

  // The first output of a training graph is the loss (a scalar); further ones are kept for metrics.
  const std::vector<ValueRef>& outputs() const { return outputs_; }
  void set_outputs(std::vector<ValueRef> outputs) { outputs_ = std::move(outputs); }

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  void set_label(NodeId id, std::string label) { nodes_[id.index()].name = std::move(label); }

  // For each node, the (user, operand) pairs of all its results, in order. Graph outputs are not users.
  struct Use {
    NodeId user;
    int operand = 0;
    int output = 0;  // which result of the used node
  };
  std::vector<std::vector<Use>> uses() const;

  // The node that has the only use of all results of a node; invalid where there is no use, or several.
  NodeId only_user(NodeId id) const { return users_[id.index()].count == 1 ? users_[id.index()].last : NodeId(); }

  // A copy without the nodes from which no output can be reached. Order and ids of the rest are kept in order.
  Pcg without_dead_nodes() const;

 private:
  struct Users {
    int count = 0;
    NodeId last;
  };
  NodeId append(Node node);

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Users> users_;  // by node
  std::vector<ValueRef> outputs_;
};

// The sharding of a compute node, read off its operands (the one way: core/ops/parallel_shape.h).
Sharding node_sharding(const Pcg& pcg, NodeId id);
// The task grid of a compute node, or the storage grid of a leaf (see storage_shape).
TaskGrid node_grid(const Pcg& pcg, NodeId id);

// A leaf's storage: the shape after the maximal chain of partitions and replicates before the first fan-out (design,
// 5).
ParallelShape storage_shape(const Pcg& pcg, NodeId leaf);

// Everything the type system does not already ensure: order, arities, unique leaf names, re-inferred shapes, outputs
// exist.
Result<void> check_well_formed(const Pcg& pcg);

// Equal for graphs that differ only in node order, labels, origins and leaf names (operands and outputs are ordered, so
// a depth-first numbering from the outputs is canonical). Weight ties, attributes and parallel shapes count.
Hash canonical_hash(const Pcg& pcg);

}  // namespace unity
