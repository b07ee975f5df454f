#include "core/ops/rms_norm.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/rows.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kEpsilon = {{"epsilon", AttributeKind::real, false, 1e-6}};

struct Walks {
  AxisTable table;
  OperandAxes x, vector;
};
Result<Walks> walks_of(std::string_view op, std::span<const Shape> in) {
  UNITY_TRY(expect_real(op, in));
  UNITY_TRY(expect_rank(op, in, 0, 1));
  if (in[1].dims != Dims{in[0].dims.back()})
    return fail("{}: operand 1 is {}, expected [{}], the last dimension of operand 0", op, to_string(in[1]),
                in[0].dims.back());
  Walks w;
  walk_dims(w.table, w.x, in[0].dims, 0, in[0].dims.size() - 1, AxisRole::parallel);
  int c = add_axis(w.table, "c", in[0].dims.back(), AxisRole::whole);
  w.x.dims.push_back(walk({c}));
  w.vector = walks(c);
  w.x.dtype = w.vector.dtype = in[0].dtype;
  return w;
}

template <class T>
T inverse_rms(const T* x, std::int64_t c, double epsilon) {
  T square(0);
  for (std::int64_t j = 0; j < c; ++j) square += x[j] * x[j];
  T mean = square * constant<T>(1.0 / static_cast<double>(c)) + constant<T>(epsilon);
  return num::apply(num::Function::reciprocal, num::apply(num::Function::sqrt, mean));
}

}  // namespace

std::vector<AttributeSpec> RmsNorm::attributes() const { return kEpsilon; }

Result<AxisTable> RmsNorm::axes(const Attributes&, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), in));
  w.table.inputs = {w.x, w.vector};
  w.table.outputs = {w.x};
  w.table.flops_per_point = 4;
  return w.table;
}

void RmsNorm::gradient(const Attributes& a, GradientBuilder& g) const {
  GradientValue d = g.apply("rms_norm_gradient", a, {g.input(0), g.input(1), g.output_gradient()});
  for (int i : {0, 1})
    if (g.wanted(i)) g.set_input_gradient(i, g.result(d, i));
}

void RmsNorm::reference(const OpCall& call) const {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T* x = call.inputs[0].as<T>() + r * c;
      T inverse = inverse_rms(x, c, real_attribute(call.attributes, 0));
      for (std::int64_t j = 0; j < c; ++j)
        call.outputs[0].as<T>()[r * c + j] = x[j] * inverse * call.inputs[1].as<T>()[j];
    }
  });
}

std::vector<Example> RmsNorm::examples() const {
  return {{{1e-6}, {{{4, 6}, DType::f32}, {{6}, DType::f32}}}, {{1e-6}, {{{2, 4, 6}, DType::f32}, {{6}, DType::f32}}}};
}

std::string_view RmsNorm::axioms() const {
  return R"(
axiom rms_norm_definition_1
  mul(gamma, div(x, sqrt(shift(e, reshape(s, reduce_mean(d, power(2.0, x))))))) = rms_norm(x, gamma, epsilon=e)
  where rank(x) == 1, d == [0], s == [1], rank(gamma) == 1, dim(gamma, 0) == dim(x, 0)
axiom rms_norm_definition_2
  mul(gamma, div(x, sqrt(shift(e, reshape(s, reduce_mean(d, power(2.0, x))))))) = rms_norm(x, gamma, epsilon=e)
  where rank(x) == 2, d == [1], s == [dim(x, 0), 1], rank(gamma) == 1, dim(gamma, 0) == dim(x, 1)
axiom rms_norm_definition_3
  mul(gamma, div(x, sqrt(shift(e, reshape(s, reduce_mean(d, power(2.0, x))))))) = rms_norm(x, gamma, epsilon=e)
  where rank(x) == 3, d == [2], s == [dim(x, 0), dim(x, 1), 1], rank(gamma) == 1, dim(gamma, 0) == dim(x, 2)
axiom rms_norm_definition_4
  mul(gamma, div(x, sqrt(shift(e, reshape(s, reduce_mean(d, power(2.0, x))))))) = rms_norm(x, gamma, epsilon=e)
  where rank(x) == 4, d == [3], s == [dim(x, 0), dim(x, 1), dim(x, 2), 1], rank(gamma) == 1, dim(gamma, 0) == dim(x, 3)
)";
}
UNITY_DEFINE_OPERATOR(rms_norm, RmsNorm)

std::vector<AttributeSpec> RmsNormGradient::attributes() const { return kEpsilon; }

Result<AxisTable> RmsNormGradient::axes(const Attributes&, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), in));
  if (in[2] != in[0])
    return fail("rms_norm_gradient: operand 2 is {}, expected {} as operand 0", to_string(in[2]), to_string(in[0]));
  OperandAxes dy = w.x;
  dy.linear = true;
  w.table.inputs = {w.x, w.vector, dy};
  w.table.outputs = {w.x, w.vector};
  w.table.linearity = Linearity::multilinear;
  w.table.flops_per_point = 9;
  return w.table;
}

// With r = 1 / sqrt(mean(x^2) + epsilon) and q = gamma dy:  dx = r (q - x r^2 mean(q x)).
void RmsNormGradient::reference(const OpCall& call) const {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch_reference(call, [&]<class T>() {
    const T* gamma = call.inputs[1].as<T>();
    T* dgamma = call.outputs[1].as<T>();
    std::fill_n(dgamma, c, T(0));
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T *x = call.inputs[0].as<T>() + r * c, *dy = call.inputs[2].as<T>() + r * c;
      T inverse = inverse_rms(x, c, real_attribute(call.attributes, 0)), mean(0);
      for (std::int64_t j = 0; j < c; ++j) {
        mean += gamma[j] * dy[j] * x[j];
        dgamma[j] += dy[j] * x[j] * inverse;
      }
      mean *= constant<T>(1.0 / static_cast<double>(c)) * inverse * inverse;
      for (std::int64_t j = 0; j < c; ++j)
        call.outputs[0].as<T>()[r * c + j] = inverse * (gamma[j] * dy[j] - x[j] * mean);
    }
  });
}

std::vector<Example> RmsNormGradient::examples() const {
  return {{{1e-6}, {{{4, 6}, DType::f32}, {{6}, DType::f32}, {{4, 6}, DType::f32}}},
          {{1e-6}, {{{2, 4, 6}, DType::f32}, {{6}, DType::f32}, {{2, 4, 6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(rms_norm_gradient, RmsNormGradient)

}  // namespace unity
