#include "core/ops/maximum.h"

#include "core/ops/define.h"

namespace unity {

void Maximum::gradient(const Attributes&, GradientBuilder& g) const {
  const GradientValue taken = g.apply("cast", {std::string("f32")}, {g.apply("greater", {}, {g.input(0), g.input(1)})});
  GradientValue dx = g.apply("mul", {}, {taken, g.output_gradient()});
  if (g.wanted(0)) g.set_input_gradient(0, g.sum_to_input(dx, 0));
  if (g.wanted(1)) g.set_input_gradient(1, g.sum_to_input(g.apply("sub", {}, {g.output_gradient(), dx}), 1));
}

void Maximum::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return greater(x, y) ? x : y; });
}

std::string_view Maximum::axioms() const {
  return R"(
axiom maximum_commutative
  maximum(x, y) = maximum(y, x)
axiom maximum_associative
  maximum(maximum(x, y), z) = maximum(x, maximum(y, z))
axiom maximum_idempotent
  maximum(x, x) = x
)";
}
UNITY_DEFINE_OPERATOR(maximum, Maximum)

}  // namespace unity
