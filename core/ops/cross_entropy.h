// cross_entropy(logits, labels) -> scalar: the mean over all rows of  log sum_j exp(logits[.., j]) - logits[.., label]
//   logits: [.., c]; labels: i32[..], each in [0, c). Rows are reduction axes (the mean divides by the rows of the
//   whole tensor), c must not be split. Not linear.
// cross_entropy_gradient(logits, labels, dy) = (softmax(logits) - onehot(labels)) dy / rows; linear in the scalar dy.
// InputError when a label is outside [0, c).
#pragma once

#include "core/ops/operator.h"

namespace unity {

class CrossEntropy final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::string_view axioms() const override;
  std::vector<Example> examples() const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

class CrossEntropyGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

// The label of a row; InputError when it is outside [0, c).
std::int32_t checked_label(const Operand& labels, std::int64_t row, std::int64_t c);

}  // namespace unity
