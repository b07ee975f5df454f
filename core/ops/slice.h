// slice(starts, sizes, x): the block of x that begins at `starts` and has `sizes`, one each per dimension.
// pad(before, after, x; value=0): x between `before` and `after` elements of `value` in each dimension.
//   A dimension that is cut or padded is whole; the others are parallel. Linear (pad: with value 0). Each is the
//   other's gradient.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Slice final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::optional<std::int64_t> elements_read(std::span<const Shape> inputs, const Shape& output,
                                            std::size_t operand) const override;
  std::vector<Example> examples() const override;
};

class Pad final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// The box that a call of slice or pad copies, in the coordinates of the block of its larger side: for slice the
// operand, for pad the result. The smaller side is copied whole.
Box sliced_box(const OpCall& call);
Box padded_box(const OpCall& call);

}  // namespace unity
