#include "core/ops/sub.h"

#include "core/ops/define.h"

namespace unity {

void Sub::gradient(const Attributes&, GradientBuilder& g) const {
  if (g.wanted(0)) g.set_input_gradient(0, g.sum_to_input(g.output_gradient(), 0));
  if (g.wanted(1)) g.set_input_gradient(1, g.sum_to_input(g.apply("scale", {-1.0}, {g.output_gradient()}), 1));
}

void Sub::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return x - y; });
}

std::string_view Sub::axioms() const {
  return R"(
axiom sub_as_sum
  sub(x, y) = add(x, scale(-1.0, y))
)";
}
UNITY_DEFINE_OPERATOR(sub, Sub)

}  // namespace unity
