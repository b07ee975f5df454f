#include "core/ops/layer_norm.h"

#include "core/ops/define.h"
#include "core/ops/rows.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kEpsilon = {{"epsilon", AttributeKind::real, false, 1e-5}};

// Rows are parallel axes, c is whole. Leaves inputs and outputs to the caller.
struct Rows {
  AxisTable table;
  OperandAxes x, vector;
};
Result<Rows> rows_of(std::string_view op, std::span<const Shape> in) {
  UNITY_TRY(expect_real(op, in));
  UNITY_TRY(expect_rank(op, in, 0, 1));
  Rows r;
  const Dims& x = in[0].dims;
  walk_dims(r.table, r.x, x, 0, x.size() - 1, AxisRole::parallel);
  int c = add_axis(r.table, "c", x.back(), AxisRole::whole);
  r.x.dims.push_back(walk({c}));
  r.vector = walks(c);
  r.x.dtype = r.vector.dtype = in[0].dtype;
  return r;
}

Result<void> expect_vector(std::string_view op, std::span<const Shape> in, std::size_t operand) {
  if (in[operand].dims != Dims{in[0].dims.back()})
    return fail("{}: operand {} is {}, expected [{}], the last dimension of operand 0", op, operand,
                to_string(in[operand]), in[0].dims.back());
  return {};
}

// Writes the normalised row h and returns 1 / sqrt(variance + epsilon).
template <class T>
T normalise(const T* x, std::int64_t c, double epsilon, T* h) {
  T over_c = constant<T>(1.0 / static_cast<double>(c)), mean(0), variance(0);
  for (std::int64_t j = 0; j < c; ++j) mean += x[j];
  mean *= over_c;
  for (std::int64_t j = 0; j < c; ++j) variance += (x[j] - mean) * (x[j] - mean);
  variance *= over_c;
  T inverse = num::apply(num::Function::reciprocal, num::apply(num::Function::sqrt, variance + constant<T>(epsilon)));
  for (std::int64_t j = 0; j < c; ++j) h[j] = (x[j] - mean) * inverse;
  return inverse;
}

}  // namespace

std::vector<AttributeSpec> LayerNorm::attributes() const { return kEpsilon; }

Result<AxisTable> LayerNorm::axes(const Attributes&, std::span<const Shape> in) const {
  Rows r = UNITY_TRY(rows_of(name(), in));
  UNITY_TRY(expect_vector(name(), in, 1));
  UNITY_TRY(expect_vector(name(), in, 2));
  r.table.inputs = {r.x, r.vector, r.vector};
  r.table.outputs = {r.x};
  r.table.flops_per_point = 8;
  return r.table;
}

void LayerNorm::gradient(const Attributes& a, GradientBuilder& g) const {
  GradientValue d = g.apply("layer_norm_gradient", a, {g.input(0), g.input(1), g.output_gradient()});
  for (int i : {0, 1, 2})
    if (g.wanted(i)) g.set_input_gradient(i, g.result(d, i));
}

void LayerNorm::reference(const OpCall& call) const {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      T* y = call.outputs[0].as<T>() + r * c;
      normalise(call.inputs[0].as<T>() + r * c, c, real_attribute(call.attributes, 0), y);
      for (std::int64_t j = 0; j < c; ++j) y[j] = call.inputs[1].as<T>()[j] * y[j] + call.inputs[2].as<T>()[j];
    }
  });
}

std::vector<Example> LayerNorm::examples() const {
  return {{{1e-5}, {{{4, 6}, DType::f32}, {{6}, DType::f32}, {{6}, DType::f32}}},
          {{1e-5}, {{{2, 4, 6}, DType::f32}, {{6}, DType::f32}, {{6}, DType::f32}}}};
}

std::string_view LayerNorm::axioms() const {
  return R"(
axiom layer_norm_definition
  let m = reshape(s, reduce_mean(d, x)), c = sub(x, m)
  add(mul(div(c, sqrt(shift(e, reshape(s, reduce_mean(d, power(2.0, c)))))), gamma), beta)
    = layer_norm(x, gamma, beta, epsilon=e)
  where d == [rank(x) - 1], rank(m) == rank(x), dim(m, rank(x) - 1) == 1, rank(gamma) == 1, rank(beta) == 1,
        dim(gamma, 0) == dim(x, rank(x) - 1), dim(beta, 0) == dim(x, rank(x) - 1)
)";
}
UNITY_DEFINE_OPERATOR(layer_norm, LayerNorm)

std::vector<AttributeSpec> LayerNormGradient::attributes() const { return kEpsilon; }

Result<AxisTable> LayerNormGradient::axes(const Attributes&, std::span<const Shape> in) const {
  Rows r = UNITY_TRY(rows_of(name(), in));
  UNITY_TRY(expect_vector(name(), in, 1));
  if (in[2] != in[0])
    return fail("layer_norm_gradient: operand 2 is {}, expected {} as operand 0", to_string(in[2]), to_string(in[0]));
  OperandAxes dy = r.x;
  dy.linear = true;
  r.table.inputs = {r.x, r.vector, dy};
  r.table.outputs = {r.x, r.vector, r.vector};
  r.table.linearity = Linearity::multilinear;
  r.table.flops_per_point = 16;
  return r.table;
}

// With q = gamma dy:  dx = (q - mean(q) - h mean(q h)) / sqrt(variance + epsilon).
void LayerNormGradient::reference(const OpCall& call) const {
  std::int64_t c = call.inputs[0].extent.back();
  dispatch_reference(call, [&]<class T>() {
    T over_c = constant<T>(1.0 / static_cast<double>(c));
    const T* gamma = call.inputs[1].as<T>();
    T *dgamma = call.outputs[1].as<T>(), *dbeta = call.outputs[2].as<T>();
    std::fill_n(dgamma, c, T(0));
    std::fill_n(dbeta, c, T(0));
    std::vector<T> h(static_cast<std::size_t>(c));
    for (std::int64_t r = 0; r < row_count(call.inputs[0]); ++r) {
      const T* dy = call.inputs[2].as<T>() + r * c;
      T* dx = call.outputs[0].as<T>() + r * c;
      T inverse = normalise(call.inputs[0].as<T>() + r * c, c, real_attribute(call.attributes, 0), h.data());
      T mean_q(0), mean_qh(0);
      for (std::int64_t j = 0; j < c; ++j) {
        T hj = h[static_cast<std::size_t>(j)], q = gamma[j] * dy[j];
        mean_q += q, mean_qh += q * hj;
        dgamma[j] += dy[j] * hj, dbeta[j] += dy[j];
      }
      mean_q *= over_c, mean_qh *= over_c;
      for (std::int64_t j = 0; j < c; ++j)
        dx[j] = (gamma[j] * dy[j] - mean_q - h[static_cast<std::size_t>(j)] * mean_qh) * inverse;
    }
  });
}

std::vector<Example> LayerNormGradient::examples() const {
  return {{{1e-5}, {{{4, 6}, DType::f32}, {{6}, DType::f32}, {{4, 6}, DType::f32}}},
          {{1e-5}, {{{2, 4, 6}, DType::f32}, {{6}, DType::f32}, {{2, 4, 6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(layer_norm_gradient, LayerNormGradient)

}  // namespace unity
