// max_pool2d(x; kernel, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1]): the largest value of each window of
//   [n, c, h, w]; padding is [top, left, bottom, right] and counts as minus infinity. Not linear.
// avg_pool2d(x; kernel, stride=[1, 1], padding=[0, 0, 0, 0], count_include_pad=1): the mean; without count_include_pad
//   over the positions inside x alone. Linear.
//   Axes of both: n, c, oh and ow (windows on x).
// max_pool2d_gradient(x, dy; ..): dy goes to the first maximum of its window, in row-major order. Linear in dy.
// avg_pool2d_gradient(dy, x; ..) -> the shape of x, of which the data are not read. Linear in dy.
//   There oh and ow must not be split: neighbouring windows overlap in the result.
#pragma once

#include "core/ops/operator.h"
#include "core/ops/spatial.h"

namespace unity {

class MaxPool2d final : public Operator {
 public:
  using Operator::Operator;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class MaxPool2dGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class AvgPool2d final : public Operator {
 public:
  using Operator::Operator;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class AvgPool2dGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

Result<Windows> max_pool2d_windows(std::string_view op, const Attributes& attributes, const Dims& x);
Result<Windows> avg_pool2d_windows(std::string_view op, const Attributes& attributes, const Dims& x);
// One over the number of positions that the sum over the window at index `at` of the logical result is divided by.
double avg_pool2d_factor(const Windows& windows, const Dims& at, bool include_pad);

}  // namespace unity
