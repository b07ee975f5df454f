// reduce_sum(dims, x), reduce_mean(dims, x): sum or mean over the given dimensions (in increasing order), which the
//   result lacks. Linear; the reduced dimensions are reduction axes. A mean divides by the sizes of the whole tensor,
//   so the partial results of its shards add up.
// broadcast_like(dims, x, like): the adjoint of reduce_sum: x repeated along `dims` to the shape of `like`, whose data
//   are not read. Linear in x.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Reduction : public Operator {
 public:
  using Operator::Operator;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  std::vector<Example> examples() const override;
};

class ReduceSum final : public Reduction {
 public:
  using Reduction::Reduction;
  std::string_view axioms() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
};

class ReduceMean final : public Reduction {
 public:
  using Reduction::Reduction;
  std::string_view axioms() const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
};

class BroadcastLike final : public Operator {
 public:
  using Operator::Operator;
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {2, 2}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// With dims as attribute 0: the position in the small (reduced) block of an index of the full block.
std::int64_t kept_position(const Attributes& attributes, const Dims& full, const Dims& index);

// How many elements a reduction adds up for each result, in a tensor of the given sizes.
std::int64_t reduced_elements(const Attributes& attributes, const Dims& sizes);

}  // namespace unity
