// gather(dim, x, indices): x with dimension `dim` replaced by the dimensions of `indices` (i32, each in [0, n)), whose
//   values say which slice of x stands there (numpy's take). n is a reduction axis: a shard of x contributes zero for
//   the slices it does not hold. Linear in x.
// gather_gradient(dim, indices, dy, x) -> the shape of x: adds each slice of dy to its slice; only x's shape is used.
// InputError when an index is outside [0, n).
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Gather final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {2, 2}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<std::int64_t> elements_read(std::span<const Shape> inputs, const Shape& output,
                                            std::size_t operand) const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

class GatherGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;
};

// A block of x as [outer, n, inner] around dimension `dim`, and where an index lies in its n; -1: in another shard.
struct GatherLoops {
  std::int64_t outer = 1, n = 1, inner = 1, offset = 0, global = 1;
  std::int64_t row(std::int32_t index) const;
};
GatherLoops gather_loops(std::int64_t dim, const Operand& x);

}  // namespace unity
