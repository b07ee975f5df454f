#include "core/ops/div.h"

#include "core/ops/define.h"

namespace unity {

void Div::gradient(const Attributes&, GradientBuilder& g) const {
  GradientValue dx = g.apply("div", {}, {g.output_gradient(), g.input(1)});
  if (g.wanted(0)) g.set_input_gradient(0, g.sum_to_input(dx, 0));
  if (g.wanted(1))
    g.set_input_gradient(1, g.sum_to_input(g.apply("scale", {-1.0}, {g.apply("mul", {}, {dx, g.output()})}), 1));
}

void Div::reference(const OpCall& call) const {
  broadcast_reference(call, [](auto x, auto y) { return x * num::apply(num::Function::reciprocal, y); });
}
std::vector<Example> Div::examples() const {
  std::vector<Example> examples = broadcast_examples();
  for (Example& e : examples) e.low = 0.5, e.high = 2;
  return examples;
}

std::string_view Div::axioms() const {
  return R"(
axiom div_of_product
  div(mul(x, y), z) = mul(x, div(y, z))
axiom div_of_quotient
  div(div(x, y), z) = div(div(x, z), y)
axiom div_of_multiple
  div(scale(f, x), y) = scale(f, div(x, y))
axiom div_of_sum
  div(add(x, y), z) = add(div(x, z), div(y, z))
)";
}
UNITY_DEFINE_OPERATOR(div, Div)

}  // namespace unity
