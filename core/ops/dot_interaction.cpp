#include "core/ops/dot_interaction.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {
namespace {

struct Walks {
  AxisTable table;
  OperandAxes x, y;
};
Result<Walks> walks_of(std::string_view op, const Shape& x, AxisRole d) {
  if (x.dims.size() != 3 || x.dims[1] < 2)
    return fail("{}: operand 0 is {}, expected [b, f, d] with at least 2 features", op, to_string(x));
  std::int64_t f = x.dims[1];
  Walks w;
  int b = add_axis(w.table, "b", x.dims[0], AxisRole::parallel), fs = add_axis(w.table, "f", f, AxisRole::whole);
  int pairs = add_axis(w.table, "pairs", f * (f - 1) / 2, AxisRole::whole), e = add_axis(w.table, "d", x.dims[2], d);
  w.x = walks(b, fs, e), w.y = walks(b, pairs);
  w.x.dtype = w.y.dtype = x.dtype;
  w.table.flop_axes = {b, pairs, e};
  return w;
}

}  // namespace

Result<AxisTable> DotInteraction::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  Walks w = UNITY_TRY(walks_of(name(), in[0], AxisRole::reduction));
  w.table.inputs = {w.x};
  w.table.outputs = {w.y};
  w.table.flops_per_point = 2;
  return w.table;
}

void DotInteraction::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("dot_interaction_gradient", {}, {g.input(0), g.output_gradient()}));
}

void DotInteraction::reference(const OpCall& call) const {
  const Operand& x = call.inputs[0];
  std::int64_t f = x.extent[1], d = x.extent[2];
  dispatch_reference(call, [&]<class T>() {
    T* y = call.outputs[0].as<T>();
    for (std::int64_t b = 0; b < x.extent[0]; ++b) {
      const T* row = x.as<T>() + b * f * d;
      for (std::int64_t i = 1; i < f; ++i)
        for (std::int64_t j = 0; j < i; ++j) {
          T sum(0);
          for (std::int64_t k = 0; k < d; ++k) sum += row[i * d + k] * row[j * d + k];
          *y++ = sum;
        }
    }
  });
}

std::vector<Example> DotInteraction::examples() const {
  return {{{}, {{{4, 3, 6}, DType::f32}}}, {{}, {{{2, 4, 2}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(dot_interaction, DotInteraction)

Result<AxisTable> DotInteractionGradient::axes(const Attributes&, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), in[0], AxisRole::parallel));
  Shape expected = operand_shape(w.table, w.y);
  if (in[1] != expected)
    return fail("dot_interaction_gradient: operand 1 is {}, expected {}", to_string(in[1]), to_string(expected));
  w.y.linear = true;
  w.table.inputs = {w.x, w.y};
  w.table.outputs = {w.x};
  w.table.linearity = Linearity::multilinear;
  w.table.flops_per_point = 4;
  return w.table;
}

void DotInteractionGradient::reference(const OpCall& call) const {
  const Operand& x = call.inputs[0];
  std::int64_t f = x.extent[1], d = x.extent[2];
  dispatch_reference(call, [&]<class T>() {
    const T* dy = call.inputs[1].as<T>();
    std::fill_n(call.outputs[0].as<T>(), x.elements(), T(0));
    for (std::int64_t b = 0; b < x.extent[0]; ++b) {
      const T* row = x.as<T>() + b * f * d;
      T* out = call.outputs[0].as<T>() + b * f * d;
      for (std::int64_t i = 1; i < f; ++i)
        for (std::int64_t j = 0; j < i; ++j, ++dy)
          for (std::int64_t k = 0; k < d; ++k)
            out[i * d + k] += *dy * row[j * d + k], out[j * d + k] += *dy * row[i * d + k];
    }
  });
}

std::vector<Example> DotInteractionGradient::examples() const {
  return {{{}, {{{4, 3, 6}, DType::f32}, {{4, 3}, DType::f32}}}, {{}, {{{2, 4, 2}, DType::f32}, {{2, 6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(dot_interaction_gradient, DotInteractionGradient)

}  // namespace unity
