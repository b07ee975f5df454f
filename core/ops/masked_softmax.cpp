#include "core/ops/masked_softmax.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/elementwise.h"
#include "core/ops/rows.h"

namespace unity {
namespace {

// y = softmax of the positions j for which keep(j), 0 elsewhere.
template <class T, class Keep>
void softmax_row(const T* x, std::int64_t c, Keep&& keep, T* y) {
  T shift(0), sum(0);
  if constexpr (std::is_same_v<T, double>) {
    bool first = true;
    for (std::int64_t j = 0; j < c; ++j)
      if (keep(j) && (first || x[j] > shift)) shift = x[j], first = false;
  }
  for (std::int64_t j = 0; j < c; ++j) sum += y[j] = keep(j) ? num::apply(num::Function::exp, x[j] - shift) : T(0);
  T inverse = sum == T(0) ? T(0) : num::apply(num::Function::reciprocal, sum);
  for (std::int64_t j = 0; j < c; ++j) y[j] *= inverse;
}

}  // namespace

Result<AxisTable> MaskedSoftmax::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_rank(name(), in, 0, 1));
  AxisTable t = UNITY_TRY(broadcast_table(name(), in));
  if (operand_shape(t, t.outputs[0]) != in[0])
    return fail("masked_softmax: mask {} does not broadcast to x {}", to_string(in[1]), to_string(in[0]));
  t.axes.back().role = AxisRole::whole;
  t.flops_per_point = 5;
  return t;
}

void MaskedSoftmax::gradient(const Attributes&, GradientBuilder& g) const {
  if (g.wanted(0)) g.set_input_gradient(0, g.apply("softmax_gradient", {}, {g.output(), g.output_gradient()}));
}

void MaskedSoftmax::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &mask = call.inputs[1];
  std::int64_t c = x.extent.back();
  dispatch_reference(call, [&]<class T>() {
    Dims rows = x.extent;
    rows.back() = 1;
    for_each_index(rows, [&](const Dims& index, std::int64_t r) {
      auto keep = [&](std::int64_t j) {
        Dims at = index;
        at.back() = j;
        return !(mask.as<T>()[broadcast_position(mask.extent, at)] == T(0));
      };
      softmax_row(x.as<T>() + r * c, c, keep, call.outputs[0].as<T>() + r * c);
    });
  });
}

std::vector<Example> MaskedSoftmax::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 6}, DType::f32}}}, {{}, {{{2, 4, 6}, DType::f32}, {{6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(masked_softmax, MaskedSoftmax)

std::int64_t causal_length(std::int64_t logical_row, std::int64_t q, std::int64_t k) {
  return std::clamp<std::int64_t>(logical_row + 1 + k - q, 0, k);
}

Result<AxisTable> CausalSoftmax::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_rank(name(), in, 0, 2));
  AxisTable t = elementwise_table(in[0], 1, 5);
  t.axes.back().role = AxisRole::whole;
  return t;
}

void CausalSoftmax::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("softmax_gradient", {}, {g.output(), g.output_gradient()}));
}

void CausalSoftmax::reference(const OpCall& call) const {
  const Operand& x = call.inputs[0];
  std::size_t q = x.extent.size() - 2;
  std::int64_t c = x.extent.back();
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t r = 0; r < row_count(x); ++r) {
      std::int64_t length = causal_length(x.offset[q] + r % x.extent[q], x.global[q], x.global.back());
      softmax_row(
          x.as<T>() + r * c, c, [&](std::int64_t j) { return j < length; }, call.outputs[0].as<T>() + r * c);
    }
  });
}

std::vector<Example> CausalSoftmax::examples() const {
  return {{{}, {{{2, 6, 6}, DType::f32}}}, {{}, {{{2, 2, 4, 6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(causal_softmax, CausalSoftmax)

}  // namespace unity
