#include "core/ops/scale.h"

#include "core/ops/define.h"
#include "core/ops/elementwise.h"

namespace unity {

std::vector<AttributeSpec> Scale::attributes() const { return {{"factor", AttributeKind::real, true, 0.0}}; }

Result<AxisTable> Scale::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  AxisTable t = elementwise_table(in[0], 1, 1);
  t.inputs[0].linear = true;
  t.linearity = Linearity::multilinear;
  return t;
}

void Scale::gradient(const Attributes& a, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("scale", a, {g.output_gradient()}));
}

void Scale::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    T factor = constant<T>(real_attribute(call.attributes, 0));
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i)
      call.outputs[0].as<T>()[i] = factor * call.inputs[0].as<T>()[i];
  });
}

std::vector<Example> Scale::examples() const {
  return {{{0.125}, {{{4, 6}, DType::f32}}}, {{-3.0}, {{{2, 4, 6}, DType::f32}}}};
}

std::string_view Scale::axioms() const {
  return R"(
axiom scale_of_scale
  scale(f, scale(g, x)) = scale(f*g, x)
axiom scale_by_one
  scale(1.0, x) = x
axiom scale_of_sum
  scale(f, add(x, y)) = add(scale(f, x), scale(f, y))
axiom scale_of_product
  scale(f, mul(x, y)) = mul(scale(f, x), y)
axiom sum_of_multiples
  add(scale(f, x), scale(g, x)) = scale(f + g, x)
axiom sum_with_multiple
  add(x, scale(f, x)) = scale(f + 1.0, x)
axiom double
  add(x, x) = scale(2.0, x)
)";
}
UNITY_DEFINE_OPERATOR(scale, Scale)

}  // namespace unity
