#include "core/ops/shift.h"

#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> Shift::attributes() const { return {{"amount", AttributeKind::real, true, 0.0}}; }

void Shift::gradient(const Attributes&, GradientBuilder& g) const { g.set_input_gradient(0, g.output_gradient()); }

void Shift::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    T amount = constant<T>(real_attribute(call.attributes, 0));
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i)
      call.outputs[0].as<T>()[i] = call.inputs[0].as<T>()[i] + amount;
  });
}

std::vector<Example> Shift::examples() const {
  return {{{0.125}, {{{4, 6}, DType::f32}}}, {{-3.0}, {{{2, 4, 6}, DType::f32}}}};
}

std::string_view Shift::axioms() const {
  return R"(
axiom shift_of_shift
  shift(a, shift(b, x)) = shift(a + b, x)
axiom shift_by_zero
  shift(0.0, x) = x
axiom shift_of_sum
  shift(a, add(x, y)) = add(shift(a, x), y)
axiom product_of_shift
  mul(shift(a, x), y) = add(mul(x, y), scale(a, y))
axiom scale_of_shift
  scale(f, shift(a, x)) = shift(f*a, scale(f, x))
)";
}
UNITY_DEFINE_OPERATOR(shift, Shift)

}  // namespace unity
