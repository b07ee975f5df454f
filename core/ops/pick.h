// pick(x, indices): of each row of x, the element that its index names: y[r] = x[r, indices[r]] (MXNet's pick; numpy's
//   take_along_axis with one index a row). x: [.., c]; indices: i32[..], each in [0, c). c is a reduction axis: a shard
//   of x contributes zero for the elements it does not hold. Linear in x.
// pick_gradient(indices, dy, x) -> the shape of x: dy[r] at position indices[r] of row r, zero elsewhere; only x's
// shape
//   is used. Linear in dy.
// InputError when an index is outside [0, c).
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Pick final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<std::int64_t> elements_read(std::span<const Shape> inputs, const Shape& output,
                                            std::size_t operand) const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

class PickGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

// Where the element of row r lies in a block of x; -1: in another shard. InputError when its index is outside [0, c).
std::int64_t picked_position(const Operand& x, const Operand& indices, std::int64_t r);

}  // namespace unity
