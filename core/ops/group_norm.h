// group_norm(x, gamma, beta; groups, epsilon=1e-5): x: [n, c, ..]; normalises each sample over a group of c / groups
//   channels and all further dimensions, then scales and shifts by channel. n and the groups are parallel, the rest is
//   whole. (groups = 1: layer norm over a sample; groups = c: instance norm.)
// group_norm_gradient(x, gamma, dy; ..) -> gradients of x, gamma and beta; linear in dy.
// Source: Wu, He, "Group Normalization", ECCV 2018, equations 1 to 3.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class GroupNorm final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class GroupNormGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// A block as rows (sample, group) of `channels` times `inner` elements; groups of a sample lie side by side.
struct GroupLoops {
  std::int64_t rows = 1, groups = 1, channels = 1, inner = 1;
};
GroupLoops group_loops(const Attributes& attributes, const Operand& x);

}  // namespace unity
