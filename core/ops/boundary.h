// The two ends of a piece of a graph that search costs by itself (core/search): values that come from the part before
// it and go to the part after it, in a given layout. They compute nothing and have no kernels; whole plans never hold
// them.
#pragma once

#include "core/ops/operator.h"

namespace unity {

// boundary(shape, degrees, copies, dtype="f32"): an activation that is already there in the given layout (a degree for
// each dimension); its gradient is wanted.
class Boundary final : public Operator {
 public:
  using Operator::Operator;
  OpCategory category() const override { return OpCategory::leaf; }
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {0, 0}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  Result<std::vector<ParallelShape>> parallel_shapes(const Attributes& attributes,
                                                     const std::vector<ParallelShape>& inputs) const override;
  void reference(const OpCall& call) const override;
  bool stored() const override { return true; }
  bool trainable() const override { return true; }
};

// deliver(x): the consumer of x on the other side; its operand's parallel shape is the layout to deliver, and the
// gradient of x arrives in that layout.
class Deliver final : public Operator {
 public:
  using Operator::Operator;
  bool pinned() const override { return true; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
};

}  // namespace unity
