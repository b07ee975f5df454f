// greater(x, y): 1 where x > y, else 0, with broadcasting; i32. Not differentiable.
#pragma once

#include "core/ops/elementwise.h"

namespace unity {

class Greater final : public BroadcastOperator {
 public:
  using BroadcastOperator::BroadcastOperator;
  bool commutative() const override { return false; }
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
};

}  // namespace unity
