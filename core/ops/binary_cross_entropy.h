// binary_cross_entropy(logits, targets): the mean over all elements of max(x, 0) - x y + log(1 + exp(-|x|)), the cross
//   entropy of sigmoid(x) against y in [0, 1]; a scalar. All axes are reductions; the mean divides by the logical size.
// binary_cross_entropy_gradient(logits, targets, dy) = (sigmoid(x) - y) dy / elements; linear in dy. The targets have
// the
//   gradient -x dy / elements.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class BinaryCrossEntropy final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
  std::vector<Example> examples() const override;
};

class BinaryCrossEntropyGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
