#include "core/ops/binary_cross_entropy.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/elementwise.h"

namespace unity {
namespace {

Result<void> expect_same(std::string_view op, std::span<const Shape> in) {
  UNITY_TRY(expect_real(op, in));
  if (in[0] != in[1])
    return fail("{}: found logits {} and targets {}, expected the same shape", op, to_string(in[0]), to_string(in[1]));
  return {};
}

double over_elements(const Operand& x) { return 1.0 / static_cast<double>(element_count(x.global)); }

}  // namespace

Result<AxisTable> BinaryCrossEntropy::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_same(name(), in));
  AxisTable t = elementwise_table(in[0], 2, 12);
  for (Axis& axis : t.axes) axis.role = AxisRole::reduction;
  t.outputs[0].dims.clear();
  return t;
}

void BinaryCrossEntropy::gradient(const Attributes&, GradientBuilder& g) const {
  if (g.wanted(0))
    g.set_input_gradient(0,
                         g.apply("binary_cross_entropy_gradient", {}, {g.input(0), g.input(1), g.output_gradient()}));
  if (g.wanted(1)) {
    double n = static_cast<double>(g.shape(g.input(0)).elements());
    g.set_input_gradient(1, g.apply("mul", {}, {g.apply("scale", {-1 / n}, {g.input(0)}), g.output_gradient()}));
  }
}

void BinaryCrossEntropy::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.inputs[1];
  dispatch_reference(call, [&]<class T>() {
    T sum(0);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      T a = x.as<T>()[i];
      if constexpr (std::is_same_v<T, double>)
        sum += std::max(a, 0.0) - a * y.as<T>()[i] + std::log1p(std::exp(-std::abs(a)));
      else
        sum += num::apply(num::Function::log, num::apply(num::Function::exp, a) + T(1)) - a * y.as<T>()[i];
    }
    *call.outputs[0].as<T>() = sum * constant<T>(over_elements(x));
  });
}

std::vector<Example> BinaryCrossEntropy::examples() const {
  return {{{}, {{{4, 1}, DType::f32}, {{4, 1}, DType::f32}}}, {{}, {{{2, 4, 3}, DType::f32}, {{2, 4, 3}, DType::f32}}}};
}
std::optional<std::int64_t> BinaryCrossEntropy::index_bound(const Attributes&, std::span<const Shape>,
                                                            std::size_t k) const {
  return k == 1 ? std::optional<std::int64_t>(2) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(binary_cross_entropy, BinaryCrossEntropy)

Result<AxisTable> BinaryCrossEntropyGradient::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_same(name(), in));
  if (!in[2].dims.empty())
    return fail("binary_cross_entropy_gradient: operand 2 is {}, expected a scalar", to_string(in[2]));
  AxisTable t = elementwise_table(in[0], 3, 10);
  t.inputs[2].dims.clear();
  t.inputs[2].linear = true;
  t.linearity = Linearity::multilinear;
  return t;
}

void BinaryCrossEntropyGradient::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.inputs[1];
  dispatch_reference(call, [&]<class T>() {
    T factor = *call.inputs[2].as<T>() * constant<T>(over_elements(x));
    for (std::int64_t i = 0; i < x.elements(); ++i)
      call.outputs[0].as<T>()[i] = (num::apply(num::Function::sigmoid, x.as<T>()[i]) - y.as<T>()[i]) * factor;
  });
}

std::vector<Example> BinaryCrossEntropyGradient::examples() const {
  return {{{}, {{{4, 1}, DType::f32}, {{4, 1}, DType::f32}, {{}, DType::f32}}},
          {{}, {{{2, 4, 3}, DType::f32}, {{2, 4, 3}, DType::f32}, {{}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(binary_cross_entropy_gradient, BinaryCrossEntropyGradient)

}  // namespace unity
