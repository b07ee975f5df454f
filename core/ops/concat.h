// concat(dim, x1, .., xn, groups=1): joins the operands along `dim`. Each operand walks an axis of its own size there,
// which must not be split. With groups = g the dimension of every operand is cut in g equal groups, and group i of the
// result is the concatenation of the operands' groups i: the group axis can be split (fused QKV weights keep their
// parallelism by heads). Jointly linear. Its gradient is split, and the other way round.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Concat final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {1, -1}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// Where the pieces of a concatenated block lie. All sizes are in elements of the block at hand, which may hold fewer
// groups than the whole tensor: for every outer index and group, the pieces stand one after the other.
struct ConcatLayout {
  std::int64_t outer = 1;  // product of the extents before dim, times the groups in the block
  Integers lengths;        // of each piece in one group, times the extents after dim
};
ConcatLayout concat_layout(std::int64_t dim, std::int64_t groups, std::span<const Operand> pieces);

}  // namespace unity
