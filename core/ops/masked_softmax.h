// masked_softmax(x, mask): softmax over the last dimension of the positions where the mask (f32, broadcast to x) is not
//   0; the others get 0, and so does a row without any position. The last dimension is whole.
// causal_softmax(x): x: [.., q, k]; row i of q sees the positions 0 to i + k - q of k.
//   Both have softmax_gradient as their gradient in x; the mask has none.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class MaskedSoftmax final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class CausalSoftmax final : public Operator {
 public:
  using Operator::Operator;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// How many of k positions row `logical_row` of q rows sees under the causal mask.
std::int64_t causal_length(std::int64_t logical_row, std::int64_t q, std::int64_t k);

}  // namespace unity
