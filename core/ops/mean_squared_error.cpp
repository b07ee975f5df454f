#include "core/ops/mean_squared_error.h"

#include "core/ops/define.h"
#include "core/ops/elementwise.h"

namespace unity {
namespace {

Result<void> expect_same(std::string_view op, std::span<const Shape> in) {
  UNITY_TRY(expect_real(op, in));
  if (in[0] != in[1])
    return fail("{}: found operands {} and {}, expected the same shape", op, to_string(in[0]), to_string(in[1]));
  return {};
}

}  // namespace

Result<AxisTable> MeanSquaredError::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_same(name(), in));
  AxisTable t = elementwise_table(in[0], 2, 3);
  for (Axis& axis : t.axes) axis.role = AxisRole::reduction;
  t.outputs[0].dims.clear();
  return t;
}

void MeanSquaredError::gradient(const Attributes&, GradientBuilder& g) const {
  for (int i : {0, 1})
    if (g.wanted(i))
      g.set_input_gradient(
          i, g.apply("mean_squared_error_gradient", {}, {g.input(i), g.input(1 - i), g.output_gradient()}));
}

void MeanSquaredError::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.inputs[1];
  dispatch_reference(call, [&]<class T>() {
    T sum(0);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      T difference = x.as<T>()[i] - y.as<T>()[i];
      sum += difference * difference;
    }
    *call.outputs[0].as<T>() = sum * constant<T>(1.0 / static_cast<double>(element_count(x.global)));
  });
}

std::vector<Example> MeanSquaredError::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 6}, DType::f32}}}, {{}, {{{2, 4, 3}, DType::f32}, {{2, 4, 3}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(mean_squared_error, MeanSquaredError)

Result<AxisTable> MeanSquaredErrorGradient::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_same(name(), in));
  if (!in[2].dims.empty())
    return fail("mean_squared_error_gradient: operand 2 is {}, expected a scalar", to_string(in[2]));
  AxisTable t = elementwise_table(in[0], 3, 3);
  t.inputs[2].dims.clear();
  t.inputs[2].linear = true;
  t.linearity = Linearity::multilinear;
  return t;
}

void MeanSquaredErrorGradient::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.inputs[1];
  dispatch_reference(call, [&]<class T>() {
    T factor = *call.inputs[2].as<T>() * constant<T>(2.0 / static_cast<double>(element_count(x.global)));
    for (std::int64_t i = 0; i < x.elements(); ++i) call.outputs[0].as<T>()[i] = (x.as<T>()[i] - y.as<T>()[i]) * factor;
  });
}

std::vector<Example> MeanSquaredErrorGradient::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 6}, DType::f32}, {{}, DType::f32}}},
          {{}, {{{2, 4, 3}, DType::f32}, {{2, 4, 3}, DType::f32}, {{}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(mean_squared_error_gradient, MeanSquaredErrorGradient)

}  // namespace unity
