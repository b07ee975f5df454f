// attention(q, k, v; scale, causal=0): scaled-dot-product attention, softmax(scale q k^T) v over the last two
//   dimensions. q: [b.., s, e], k: [b.., t, e], v: [b.., t, f], result [b.., s, f]; causal: row i of s sees the
//   positions 0 to i + t - s of t. Batch dimensions and s are parallel, t, e and f are whole.
// attention_gradient(q, k, v, dy; ..) -> gradients of q, k and v; the probabilities are computed again, so that nothing
// of
//   size s t is kept. Linear in dy. A split of s gives partial sums of the gradients of k and v.
// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017, equation 1.
#pragma once

#include "core/ops/operator.h"

namespace unity {

class Attention final : public Operator {
 public:
  using Operator::Operator;
  std::string_view axioms() const override;
  Arity arity() const override { return {3, 3}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void gradient(const Attributes& attributes, GradientBuilder& builder) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

class AttentionGradient final : public Operator {
 public:
  using Operator::Operator;
  Arity arity() const override { return {4, 4}; }
  std::vector<AttributeSpec> attributes() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  void reference(const OpCall& call) const override;
  std::vector<Example> examples() const override;
};

// The loops of a block: `batch` matrices of s rows in a logical s of `rows` that begin at `first`.
struct AttentionLoops {
  std::int64_t batch = 1, s = 1, t = 1, e = 1, f = 1, first = 0, rows = 1;
};
AttentionLoops attention_loops(const Operand& q, const Operand& k, const Operand& v);

}  // namespace unity
