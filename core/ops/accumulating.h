// The form of an operator that adds its result to a sum: OP_accumulate(operands of OP .., sum) = sum + OP(operands ..),
// for operators whose Operator::accumulating() names it. In Programs (core/plan/accumulation.h), where the sum and the
// result may be one buffer (BLAS and cuDNN: beta = 1). Reductions must not be split: each part would add the sum.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Accumulating final : public Operator {
 public:
  using Operator::Operator;
  const Operator* accumulates() const override;
  std::vector<AttributeSpec> attributes() const override { return accumulates()->attributes(); }
  Arity arity() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
