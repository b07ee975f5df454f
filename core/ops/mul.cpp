#include "core/ops/mul.h"

#include "core/ops/define.h"

namespace unity {

void Mul::gradient(const Attributes&, GradientBuilder& g) const {
  for (int i : {0, 1})
    if (g.wanted(i))
      g.set_input_gradient(i, g.sum_to_input(g.apply("mul", {}, {g.output_gradient(), g.input(1 - i)}), i));
}

void Mul::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return x * y; });
}

std::string_view Mul::axioms() const {
  return R"(
axiom mul_commutative
  mul(x, y) = mul(y, x)
axiom mul_associative
  mul(mul(x, y), z) = mul(x, mul(y, z))
axiom mul_of_sum
  mul(add(x, y), z) = add(mul(x, z), mul(y, z))
)";
}
UNITY_DEFINE_OPERATOR(mul, Mul)

}  // namespace unity
