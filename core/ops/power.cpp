#include "core/ops/power.h"

#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> Power::attributes() const { return {{"exponent", AttributeKind::real, true, 0.0}}; }

void Power::gradient(const Attributes& a, GradientBuilder& g) const {
  double e = real_attribute(a, 0);
  // Not 0 times 1 / x, which at x = 0 is no number.
  if (e == 0) return g.set_input_gradient(0, g.apply("scale", {0.0}, {g.output_gradient()}));
  GradientValue slope = e == 2 ? g.input(0) : g.apply("power", {e - 1}, {g.input(0)});
  g.set_input_gradient(0, g.apply("mul", {}, {g.apply("scale", {e}, {slope}), g.output_gradient()}));
}

void Power::reference(const OpCall& call) const {
  double e = real_attribute(call.attributes, 0);
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T x = call.inputs[0].as<T>()[i];
      if constexpr (std::is_same_v<T, double>) {
        call.outputs[0].as<T>()[i] = std::pow(x, e);
      } else {
        // Small natural exponents are exact; the others have a stand-in that depends on the exponent.
        auto natural = static_cast<std::int64_t>(e);
        bool exact = static_cast<double>(natural) == e && natural >= 0 && natural <= 8;
        T y(1);
        for (std::int64_t k = 0; exact && k < natural; ++k) y *= x;
        call.outputs[0].as<T>()[i] = exact ? y : num::apply(num::Function::exp, x + constant<T>(e));
      }
    }
  });
}

std::vector<Example> Power::examples() const {
  return {
      {{2.0}, {{{4, 6}, DType::f32}}}, {{3.0}, {{{2, 4, 6}, DType::f32}}}, {{-0.5}, {{{4, 6}, DType::f32}}, 0, 0.5, 2}};
}

std::string_view Power::axioms() const {
  return R"(
axiom power_of_one
  power(1.0, x) = x
axiom power_of_two
  power(2.0, x) = mul(x, x)
axiom power_of_three
  power(3.0, x) = mul(x, mul(x, x))
)";
}
UNITY_DEFINE_OPERATOR(power, Power)

}  // namespace unity
