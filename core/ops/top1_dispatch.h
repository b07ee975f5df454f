// top1_dispatch(gates; capacity): gates [b, t, e] -> [b, t, e, c], 1 where token t goes to place c of its best expert,
// else
//   0. Within each of b groups tokens take places in order; those beyond an expert's capacity are dropped. b is
//   parallel, the rest is whole. Not differentiable: gradients flow through the gates that the result is multiplied
//   with.
// Source: Fedus, Zoph, Shazeer, "Switch Transformers", JMLR 2022, section 2.2; groups as in GShard (Lepikhin et al.).
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Top1Dispatch final : public Operator {
 public:
  using Operator::Operator;
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
  bool detached(const Attributes&) const override { return true; }
};

}  // namespace unity
