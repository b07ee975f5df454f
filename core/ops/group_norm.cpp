#include "core/ops/group_norm.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kAttributes = {{"groups", AttributeKind::integer, true, {}},
                                                {"epsilon", AttributeKind::real, false, 1e-5}};

struct Walks {
  AxisTable table;
  OperandAxes x, vector;
};
Result<Walks> walks_of(std::string_view op, const Attributes& a, std::span<const Shape> in) {
  UNITY_TRY(expect_real(op, in));
  UNITY_TRY(expect_rank(op, in, 0, 2));
  std::int64_t groups = int_attribute(a, 0), c = in[0].dims[1];
  if (groups < 1 || c % groups != 0)
    return fail("{}: groups is {}, expected a divisor of {}, dimension 1 of operand 0", op, groups, c);
  Walks w;
  int n = add_axis(w.table, "n", in[0].dims[0], AxisRole::parallel);
  int g = add_axis(w.table, "g", groups, AxisRole::parallel);
  int k = add_axis(w.table, "c", c / groups, AxisRole::whole);
  w.x.dims = {walk({n}), walk({g, k})};
  walk_dims(w.table, w.x, in[0].dims, 2, in[0].dims.size(), AxisRole::whole);
  w.vector.dims = {walk({g, k})};
  w.x.dtype = w.vector.dtype = in[0].dtype;
  return w;
}

Result<void> expect_vector(std::string_view op, std::span<const Shape> in, std::size_t operand) {
  if (in[operand].dims != Dims{in[0].dims[1]})
    return fail("{}: operand {} is {}, expected [{}], dimension 1 of operand 0", op, operand, to_string(in[operand]),
                in[0].dims[1]);
  return {};
}

// Writes the normalised row h and returns 1 / sqrt(variance + epsilon).
template <class T>
T normalise(const T* x, std::int64_t n, double epsilon, T* h) {
  T over_n = constant<T>(1.0 / static_cast<double>(n)), mean(0), variance(0);
  for (std::int64_t i = 0; i < n; ++i) mean += x[i];
  mean *= over_n;
  for (std::int64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  variance *= over_n;
  T inverse = num::apply(num::Function::reciprocal, num::apply(num::Function::sqrt, variance + constant<T>(epsilon)));
  for (std::int64_t i = 0; i < n; ++i) h[i] = (x[i] - mean) * inverse;
  return inverse;
}

std::vector<Shape> shapes(std::initializer_list<Dims> list) {
  std::vector<Shape> result;
  for (const Dims& dims : list) result.push_back({dims, DType::f32});
  return result;
}

}  // namespace

GroupLoops group_loops(const Attributes& a, const Operand& x) {
  GroupLoops l;
  l.channels = x.global[1] / int_attribute(a, 0);
  l.groups = x.extent[1] / l.channels;
  l.rows = x.extent[0] * l.groups;
  for (std::size_t d = 2; d < x.extent.size(); ++d) l.inner *= x.extent[d];
  return l;
}

std::vector<AttributeSpec> GroupNorm::attributes() const { return kAttributes; }

Result<AxisTable> GroupNorm::axes(const Attributes& a, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), a, in));
  UNITY_TRY(expect_vector(name(), in, 1));
  UNITY_TRY(expect_vector(name(), in, 2));
  w.table.inputs = {w.x, w.vector, w.vector};
  w.table.outputs = {w.x};
  w.table.flops_per_point = 8;
  return w.table;
}

void GroupNorm::gradient(const Attributes& a, GradientBuilder& g) const {
  GradientValue d = g.apply("group_norm_gradient", a, {g.input(0), g.input(1), g.output_gradient()});
  for (int i : {0, 1, 2})
    if (g.wanted(i)) g.set_input_gradient(i, g.result(d, i));
}

void GroupNorm::reference(const OpCall& call) const {
  GroupLoops l = group_loops(call.attributes, call.inputs[0]);
  std::int64_t n = l.channels * l.inner;
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t r = 0; r < l.rows; ++r) {
      T* y = call.outputs[0].as<T>() + r * n;
      normalise(call.inputs[0].as<T>() + r * n, n, real_attribute(call.attributes, 1), y);
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t c = r % l.groups * l.channels + i / l.inner;
        y[i] = y[i] * call.inputs[1].as<T>()[c] + call.inputs[2].as<T>()[c];
      }
    }
  });
}

std::vector<Example> GroupNorm::examples() const {
  return {{{std::int64_t{2}, 1e-5}, shapes({{2, 4, 3, 2}, {4}, {4}})},
          {{std::int64_t{3}, 1e-5}, shapes({{4, 6}, {6}, {6}})}};
}
UNITY_DEFINE_OPERATOR(group_norm, GroupNorm)

std::vector<AttributeSpec> GroupNormGradient::attributes() const { return kAttributes; }

Result<AxisTable> GroupNormGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), a, in));
  UNITY_TRY(expect_vector(name(), in, 1));
  if (in[2] != in[0])
    return fail("group_norm_gradient: operand 2 is {}, expected {} as operand 0", to_string(in[2]), to_string(in[0]));
  OperandAxes dy = w.x;
  dy.linear = true;
  w.table.inputs = {w.x, w.vector, dy};
  w.table.outputs = {w.x, w.vector, w.vector};
  w.table.linearity = Linearity::multilinear;
  w.table.flops_per_point = 16;
  return w.table;
}

// With h the normalised row and q = gamma dy:  dx = (q - mean(q) - h mean(q h)) / sqrt(variance + epsilon).
void GroupNormGradient::reference(const OpCall& call) const {
  GroupLoops l = group_loops(call.attributes, call.inputs[0]);
  std::int64_t n = l.channels * l.inner;
  dispatch_reference(call, [&]<class T>() {
    const T* gamma = call.inputs[1].as<T>();
    T *dgamma = call.outputs[1].as<T>(), *dbeta = call.outputs[2].as<T>();
    std::fill_n(dgamma, call.outputs[1].elements(), T(0));
    std::fill_n(dbeta, call.outputs[2].elements(), T(0));
    std::vector<T> h(static_cast<std::size_t>(n));
    T over_n = constant<T>(1.0 / static_cast<double>(n));
    for (std::int64_t r = 0; r < l.rows; ++r) {
      const T* dy = call.inputs[2].as<T>() + r * n;
      T inverse = normalise(call.inputs[0].as<T>() + r * n, n, real_attribute(call.attributes, 1), h.data());
      T mean_q(0), mean_qh(0);
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t c = r % l.groups * l.channels + i / l.inner;
        T hi = h[static_cast<std::size_t>(i)], q = gamma[c] * dy[i];
        mean_q += q, mean_qh += q * hi;
        dgamma[c] += dy[i] * hi, dbeta[c] += dy[i];
      }
      mean_q *= over_n, mean_qh *= over_n;
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t c = r % l.groups * l.channels + i / l.inner;
        call.outputs[0].as<T>()[r * n + i] =
            (gamma[c] * dy[i] - mean_q - h[static_cast<std::size_t>(i)] * mean_qh) * inverse;
      }
    }
  });
}

std::vector<Example> GroupNormGradient::examples() const {
  return {{{std::int64_t{2}, 1e-5}, shapes({{2, 4, 3, 2}, {4}, {2, 4, 3, 2}})},
          {{std::int64_t{3}, 1e-5}, shapes({{4, 6}, {6}, {4, 6}})}};
}
UNITY_DEFINE_OPERATOR(group_norm_gradient, GroupNormGradient)

}  // namespace unity
