// Leaves of a PCG. The partitions and replicates directly after a leaf (before its first fan-out) say how it is stored.
#pragma once

#include "core/ops/operator.h"

namespace unity {

// input(shape, dtype="f32"): one batch of data or labels; any device can be given any part of it, so it moves no bytes.
class Input final : public Operator {
 public:
  using Operator::Operator;
  OpCategory category() const override { return OpCategory::leaf; }
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {0, 0}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
};

// weight(shape, init="uniform", scale=0.0): trainable. Initial values are drawn per logical element from (seed,
// origin): "uniform" in +-scale, "normal" with standard deviation scale, "zeros", "ones"; scale 0 means 1/sqrt(rows).
class Weight final : public Operator {
 public:
  using Operator::Operator;
  OpCategory category() const override { return OpCategory::leaf; }
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {0, 0}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  bool stored() const override { return true; }
  bool trainable() const override { return true; }
};

// state(shape, init="zeros", scale=0.0): held like a weight, but not trained: a constant, or what an operator writes
// back after each iteration (Operator::new_state; batch norm's running moments).
class StateLeaf final : public Operator {
 public:
  using Operator::Operator;
  OpCategory category() const override { return OpCategory::leaf; }
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {0, 0}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  bool stored() const override { return true; }
};

// The initial value of element `index` (row-major in the logical tensor) of a weight or state.
double initial_weight(const Attributes& attributes, RandomKey key, std::int64_t index);

}  // namespace unity
