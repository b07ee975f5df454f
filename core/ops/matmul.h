// matmul(x, w, activation="none", transpose_w=0):  y[.., m, n] = act(sum_k x[.., m, k] w[k, n])
//   x: rank 1 or more, all dimensions but the last are parallel axes; w: [k, n], or [n, k] with transpose_w.
//   Without activation it is multilinear, so k may be split (partial sums) and partial operands pass through. With a
//   fused activation it is not linear: splitting k is a type error, which is why Unity un-fuses ReLU where it wants to
//   (paper, Fig. 2).
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Matmul final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  std::string_view accumulating(const Attributes& attributes) const override;
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// matmul_weight_gradient(x, dy):  dw[k, n] = sum over all rows of x[.., k] dy[.., n]
class MatmulWeightGradient final : public Operator {
 public:
  using Operator::Operator;
  std::string_view accumulating(const Attributes&) const override { return "matmul_weight_gradient_accumulate"; }
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

}  // namespace unity
