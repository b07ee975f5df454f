// Values of small graphs, each built, typed and evaluated once. A value is a leaf or a result of an operator on other
// values; equal terms are the same value. What it holds is known exactly: its logical tensor on two random assignments
// of the leaves, in integers modulo 2^61 - 1 (nonlinear functions have stand-ins, core/ops/reference.h), and its
// parallel shape. In the second assignment one element in four is zero, so that quotients which are undefined at
// different zeros differ. Parallelization operators leave the logical tensor as it is, so only typing sees them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/generate/int_table.h"
#include "core/graph/evaluate.h"

namespace unity {

// An operator with all its attributes and its number of operands.
struct TermOperator {
  const Operator* op = nullptr;
  Attributes attributes;
  int operands = 1;
};

inline constexpr std::size_t kMaxTermOperators = 6;

struct TermValue {
  std::int32_t node = -1;                                 // -1: a leaf
  std::int32_t output = 0;                                // which result
  std::int32_t shape = 0;                                 // see TermTable::shape
  std::int32_t logical = 0;                               // equal for equal logical tensors
  std::int32_t operators = 0;                             // distinct nodes that it is made of, itself included
  std::array<std::int32_t, kMaxTermOperators> closure{};  // those nodes, in increasing order
};

struct TermNode {
  std::int32_t op = 0;           // index of the TermOperator
  std::int32_t first_input = 0;  // into a pool
  std::int32_t operands = 0;
  std::int32_t first_value = 0;  // its results are values first_value ..
  std::int32_t results = 0;
};

class TermTable {
 public:
  explicit TermTable(std::uint64_t seed = 1) : seed_(seed) {}

  // Index of the operator; the same for equal operators.
  int add_operator(TermOperator op);
  // A leaf with random data of its own; indices lie below `index_bound`. Leaves come before all other values.
  int add_leaf(const ParallelShape& shape, std::int64_t index_bound = 0);

  static constexpr int kIllTyped = -1, kTooLarge = -2;
  // The node, built when it is new. Operands of commutative operators are put in order.
  int apply(int op, std::span<const std::int32_t> inputs);

  const std::vector<TermOperator>& operators() const { return operators_; }
  const std::vector<TermNode>& nodes() const { return nodes_; }
  const std::vector<TermValue>& values() const { return values_; }
  const TermValue& value(int v) const { return values_[static_cast<std::size_t>(v)]; }
  const TermNode& node(int n) const { return nodes_[static_cast<std::size_t>(n)]; }
  const TermOperator& op_of(int node) const {
    return operators_[static_cast<std::size_t>(nodes_[static_cast<std::size_t>(node)].op)];
  }
  std::span<const std::int32_t> inputs(int node) const {
    const TermNode& n = nodes_[static_cast<std::size_t>(node)];
    return {inputs_.data() + n.first_input, static_cast<std::size_t>(n.operands)};
  }
  int leaves() const { return leaves_; }
  const ParallelShape& shape(int value) const {
    return shapes_[static_cast<std::size_t>(values_[static_cast<std::size_t>(value)].shape)];
  }
  // The same on both assignments of the leaves: it does not depend on them.
  bool constant(int value) const;
  std::size_t logical_tensors() const { return tensors_.size(); }

  // Number of distinct operators of two values together; more than kMaxTermOperators: kMaxTermOperators + 1.
  static int joint_operators(const TermValue& a, const TermValue& b);

 private:
  struct Tensors {
    LogicalTensor first, second;
    bool operator==(const Tensors&) const = default;
  };
  using Ids = std::vector<std::int32_t>;

  std::int32_t intern(const ParallelShape& shape);
  std::int32_t intern(Tensors tensors);
  // Indices into results_, or kIllTyped.
  int type(int op, std::span<const std::int32_t> inputs);
  bool indices_fit(const TermOperator& op, std::span<const std::int32_t> inputs) const;
  int evaluate(int op, std::span<const std::int32_t> inputs, const Ids& shapes);

  std::uint64_t seed_;
  int leaves_ = 0;
  std::vector<TermOperator> operators_;
  std::unordered_map<Hash, std::vector<std::int32_t>> operator_index_, shape_index_, tensor_index_;
  std::vector<TermNode> nodes_;
  std::vector<TermValue> values_;
  std::vector<std::int32_t> inputs_;
  std::vector<ParallelShape> shapes_;
  std::vector<Tensors> tensors_;
  std::vector<Ids> results_;  // shapes or logical tensors of the results of an operator
  IntTable node_index_, type_index_, evaluation_index_;
  Ids key_, shape_key_, logical_key_;  // reused
};

}  // namespace unity
