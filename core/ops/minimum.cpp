#include "core/ops/minimum.h"

#include "core/ops/define.h"

namespace unity {

void Minimum::gradient(const Attributes&, GradientBuilder& g) const {
  const GradientValue taken = g.apply("cast", {std::string("f32")}, {g.apply("greater", {}, {g.input(1), g.input(0)})});
  GradientValue dx = g.apply("mul", {}, {taken, g.output_gradient()});
  if (g.wanted(0)) g.set_input_gradient(0, g.sum_to_input(dx, 0));
  if (g.wanted(1)) g.set_input_gradient(1, g.sum_to_input(g.apply("sub", {}, {g.output_gradient(), dx}), 1));
}

void Minimum::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return greater(y, x) ? x : y; });
}

std::string_view Minimum::axioms() const {
  return R"(
axiom minimum_commutative
  minimum(x, y) = minimum(y, x)
axiom minimum_associative
  minimum(minimum(x, y), z) = minimum(x, minimum(y, z))
axiom minimum_idempotent
  minimum(x, x) = x
)";
}
UNITY_DEFINE_OPERATOR(minimum, Minimum)

}  // namespace unity
