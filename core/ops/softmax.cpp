#include "core/ops/softmax.h"

#include "core/ops/define.h"
#include "core/ops/elementwise.h"
#include "core/ops/rows.h"

namespace unity {

Result<AxisTable> Softmax::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_rank(name(), in, 0, 1));
  AxisTable t = elementwise_table(in[0], 1, 5);
  t.axes.back().role = AxisRole::whole;
  return t;
}

void Softmax::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("softmax_gradient", {}, {g.output(), g.output_gradient()}));
}

void Softmax::reference(const OpCall& call) const {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T* x = call.inputs[0].as<T>() + r * c;
      T* y = call.outputs[0].as<T>() + r * c;
      T inverse = num::apply(num::Function::reciprocal, exponentials(x, c, y).sum);
      for (std::int64_t j = 0; j < c; ++j) y[j] *= inverse;
    }
  });
}

std::vector<Example> Softmax::examples() const {
  return {{{}, {{{4, 6}, DType::f32}}}, {{}, {{{2, 4, 6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(softmax, Softmax)

Result<AxisTable> SoftmaxGradient::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_rank(name(), in, 0, 1));
  if (in[0] != in[1])
    return fail("softmax_gradient: found operands {} and {}, expected the same shape", to_string(in[0]),
                to_string(in[1]));
  AxisTable t = elementwise_table(in[0], 2, 4);
  t.axes.back().role = AxisRole::whole;
  t.inputs[1].linear = true;
  t.linearity = Linearity::multilinear;
  return t;
}

void SoftmaxGradient::reference(const OpCall& call) const {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T* y = call.inputs[0].as<T>() + r * c;
      const T* dy = call.inputs[1].as<T>() + r * c;
      T sum(0);
      for (std::int64_t j = 0; j < c; ++j) sum += y[j] * dy[j];
      for (std::int64_t j = 0; j < c; ++j) call.outputs[0].as<T>()[r * c + j] = y[j] * (dy[j] - sum);
    }
  });
}

std::vector<Example> SoftmaxGradient::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 6}, DType::f32}}}, {{}, {{{2, 4, 6}, DType::f32}, {{2, 4, 6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(softmax_gradient, SoftmaxGradient)

}  // namespace unity
