#include "core/ops/maximum.h"

#include "core/ops/define.h"

namespace unity {

void gradient_of_choice(GradientBuilder& g, GradientValue first, GradientValue second) {
  auto number = [&](GradientValue mask) { return g.apply("cast", {std::string("f32")}, {mask}); };
  GradientValue dy = g.output_gradient(), lead = g.apply("sub", {}, {number(first), number(second)});
  GradientValue twice = g.apply("add", {}, {dy, g.apply("mul", {}, {lead, dy})});
  GradientValue dx = g.apply("scale", {0.5}, {twice});
  if (g.wanted(0)) g.set_input_gradient(0, g.sum_to_input(dx, 0));
  if (g.wanted(1)) g.set_input_gradient(1, g.sum_to_input(g.apply("sub", {}, {dy, dx}), 1));
}

void Maximum::gradient(const Attributes&, GradientBuilder& g) const {
  GradientValue x = g.input(0), y = g.input(1);
  gradient_of_choice(g, g.apply("greater", {}, {x, y}), g.apply("greater", {}, {y, x}));
}

void Maximum::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return takes_place_of(x, y, true) ? x : y; });
}

std::string_view Maximum::axioms() const {
  return R"(
axiom maximum_commutative
  maximum(x, y) = maximum(y, x)
axiom maximum_associative
  maximum(maximum(x, y), z) = maximum(x, maximum(y, z))
axiom maximum_idempotent
  maximum(x, x) = x
axiom maximum_of_minimum
  maximum(x, minimum(y, z)) = minimum(maximum(x, y), maximum(x, z))
axiom maximum_absorbs_0
  let m = minimum(x, y)
  maximum(x, m) = x
  where rank(x) == 0, rank(m) == 0
axiom maximum_absorbs_1
  let m = minimum(x, y)
  maximum(x, m) = x
  where rank(x) == 1, rank(m) == 1, dim(m, 0) == dim(x, 0)
axiom maximum_absorbs_2
  let m = minimum(x, y)
  maximum(x, m) = x
  where rank(x) == 2, rank(m) == 2, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1)
axiom maximum_absorbs_3
  let m = minimum(x, y)
  maximum(x, m) = x
  where rank(x) == 3, rank(m) == 3, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1), dim(m, 2) == dim(x, 2)
axiom maximum_absorbs_4
  let m = minimum(x, y)
  maximum(x, m) = x
  where rank(x) == 4, rank(m) == 4, dim(m, 0) == dim(x, 0), dim(m, 1) == dim(x, 1), dim(m, 2) == dim(x, 2), dim(m, 3) == dim(x, 3)
)";
}
UNITY_DEFINE_OPERATOR(maximum, Maximum)

}  // namespace unity
