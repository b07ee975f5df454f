// batch_matmul(a, b, transpose_a=0, transpose_b=0):  y[.., m, n] = sum_k a[.., m, k] b[.., k, n]
//   a: [.., m, k], or [.., k, m] with transpose_a; b: [.., k, n], or [.., n, k] with transpose_b. The leading
//   dimensions are shared parallel axes (batch, heads). Multilinear: k may be split, and one operand may hold partial
//   sums.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class BatchMatmul final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
