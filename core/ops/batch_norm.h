// Batch norm, in three parts (moments, combine, normalise), so that over a sharded batch the moments are partial sums
// and one reduction makes the plan compute the same function as one device. c is dimension 1 of x: [n, c, ..].
//
// moments(x) -> mean[c], mean_square[c]: means of x and of x^2 over all dimensions but 1, which are reduction axes.
// combine_moments(mean, mean_square, running_mean, running_variance; count, momentum=0.1)
//     -> mean, variance = mean_square - mean^2, and the new running values
//     (1 - momentum) running + momentum value, the variance unbiased: times count / (count - 1); count: elements per
//     channel. In inference the first two results are the running values. Not linear, so moments must be whole.
//     The difference of means of squares, which add up over devices, loses in f32 about 6e-8 (mean / deviation)^2 of
//     the variance: 6% where the mean is 1,000 deviations. Inputs like years or prices are to be normalised before.
// batch_norm(x, mean, variance, gamma, beta; epsilon=1e-5, activation="none")
//     y = (x - mean) / sqrt(max(variance, 0) + epsilon) gamma + beta, through ReLU with activation="relu".
// moments_gradient(x, dmean, dmean_square) = (dmean + 2 x dmean_square) / count, linear in both together.
// batch_norm_gradient(x, mean, variance, gamma, dy[, y]; epsilon) -> gradients of the five operands; with y, the result
//     after ReLU, dy is taken to be zero where y is. Linear in dy.
// Source: Ioffe, Szegedy, "Batch Normalization", ICML 2015, algorithm 1.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Moments final : public Operator {
 public:
  using Operator::Operator;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class MomentsGradient final : public Operator {
 public:
  using Operator::Operator;
  std::string_view accumulating(const Attributes&) const override { return "moments_gradient_accumulate"; }
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class CombineMoments final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {4, 4}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<int> new_state(int output) const override { return output >= 2 ? std::optional(output) : std::nullopt; }
  std::optional<int> inference_alias(int output) const override {
    return output < 2 ? std::optional(output + 2) : std::nullopt;
  }
};

class BatchNorm final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  Arity arity() const override { return {5, 5}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class BatchNormGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {5, 6}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// A block of [n, c, ..] as three loops: over n, over c, and over the rest.
struct ChannelLoops {
  std::int64_t outer = 1, channels = 1, inner = 1;
};
ChannelLoops channel_loops(const Dims& extent);

}  // namespace unity
