// dropout_mask(shape, rate): 0 with probability `rate` (in [0, 1)), else 1 / (1 - rate), for each element; drawn per
// logical element from OpCall::random, so that it is the same under every plan. Dropout is mul(x, dropout_mask). It is
// a leaf (no operands: any device can make any part of it), but unlike the others it is computed, by a kernel.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class DropoutMask final : public Operator {
 public:
  using Operator::Operator;
  OpCategory category() const override { return OpCategory::leaf; }
  std::vector<AttributeSpec> attributes() const override;
  Arity arity() const override { return {0, 0}; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  bool random() const override { return true; }
  Attributes inference_attributes(const Attributes& attributes) const override { return {attributes[0], 0.0}; }
};

// Whether the element at `index` (row-major in the logical tensor) is kept.
constexpr bool dropout_keeps(RandomKey key, std::int64_t index, double rate) {
  return random_uniform(key, static_cast<std::uint64_t>(index)) >= rate;
}

}  // namespace unity
