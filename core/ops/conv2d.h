// conv2d(x, w; stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, activation="none")
//   x: [n, c, h, w], w: [co, c / groups, kh, kw], result [n, co, oh, ow]; padding is [top, left, bottom, right].
//   y[n, o, p, q] = sum over i, a, b of x[n, g i, p stride - top + a dilation, ..] w[o, i, a, b]   (a correlation)
//   Axes: n, g (groups), co (of a group), oh and ow (windows on x), ci (reduction; of a group), kh, kw.
//   Channels of x walk (g, ci), of the result (g, co): splitting channels splits the groups where there are several.
//   activation="relu" applies ReLU to the result; then the operator is not linear and ci is whole.
// conv2d_input_gradient(w, dy, x; ..) -> [n, c, h, w], only the shape of x is used; linear in w and in dy.
// conv2d_weight_gradient(x, dy, w; ..) -> the shape of w; n, oh and ow are reduction axes; linear in x and in dy.
#pragma once

#include "core/ops/operator.h"
#include "core/ops/spatial.h"

namespace unity {

class Conv2d final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  Arity arity() const override { return {2, 2}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class Conv2dInputGradient final : public Operator {
 public:
  using Operator::Operator;
  std::string_view accumulating(const Attributes&) const override { return "conv2d_input_gradient_accumulate"; }
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class Conv2dWeightGradient final : public Operator {
 public:
  using Operator::Operator;
  std::string_view accumulating(const Attributes&) const override { return "conv2d_weight_gradient_accumulate"; }
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// The attributes of the three, read: windows for the given logical x and w.
Result<Windows> conv2d_windows(std::string_view op, const Attributes& attributes, const Dims& x, const Dims& w);
inline std::int64_t conv2d_groups(const Attributes& a) { return int_attribute(a, 3); }
inline bool conv2d_relu(const Attributes& a) { return a.size() > 4 && text_attribute(a, 4) == "relu"; }

}  // namespace unity
