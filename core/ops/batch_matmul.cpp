#include "core/ops/batch_matmul.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> BatchMatmul::attributes() const {
  return {{"transpose_a", AttributeKind::integer, false, std::int64_t{0}},
          {"transpose_b", AttributeKind::integer, false, std::int64_t{0}}};
}

Result<AxisTable> BatchMatmul::axes(const Attributes& attributes, std::span<const Shape> in) const {
  const Dims &a = in[0].dims, &b = in[1].dims;
  bool ta = int_attribute(attributes, 0) != 0, tb = int_attribute(attributes, 1) != 0;
  for (std::size_t i : {0, 1}) UNITY_TRY(expect_flag(*this, attributes, i));
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_rank(name(), in, 0, 2));
  std::size_t lead = a.size() - 2;
  if (b.size() != a.size() || !std::equal(a.begin(), a.end() - 2, b.begin()))
    return fail("batch_matmul: found operands {} and {}, expected the same leading dimensions", to_string(in[0]),
                to_string(in[1]));
  std::int64_t m = a[lead + (ta ? 1 : 0)], k = a[lead + (ta ? 0 : 1)];
  std::int64_t bk = b[lead + (tb ? 1 : 0)], n = b[lead + (tb ? 0 : 1)];
  if (k != bk) return fail("batch_matmul: axis k is {} in operand 0 but {} in operand 1", k, bk);
  AxisTable t;
  OperandAxes shared;
  for (std::size_t i = 0; i < lead; ++i)
    shared.dims.push_back(walk({add_axis(t, fmt::format("b{}", i), a[i], AxisRole::parallel)}));
  shared.dtype = in[0].dtype;
  int m_axis = add_axis(t, "m", m, AxisRole::parallel), n_axis = add_axis(t, "n", n, AxisRole::parallel);
  int k_axis = add_axis(t, "k", k, AxisRole::reduction);
  auto operand = [&](int row, int column, bool transposed, bool linear) {
    OperandAxes o = shared;
    o.dims.push_back(walk({transposed ? column : row}));
    o.dims.push_back(walk({transposed ? row : column}));
    o.linear = linear;
    return o;
  };
  t.inputs = {operand(m_axis, k_axis, ta, true), operand(k_axis, n_axis, tb, true)};
  t.outputs = {operand(m_axis, n_axis, false, false)};
  t.linearity = Linearity::multilinear;
  t.flops_per_point = 2;
  return t;
}

void BatchMatmul::gradient(const Attributes& attributes, GradientBuilder& g) const {
  std::int64_t ta = int_attribute(attributes, 0) != 0, tb = int_attribute(attributes, 1) != 0;
  GradientValue a = g.input(0), b = g.input(1), dy = g.output_gradient();
  // With A, B the matrices multiplied: dA = dY B^T and dB = A^T dY; transposed operands get the transposed product.
  if (g.wanted(0))
    g.set_input_gradient(0, ta ? g.apply("batch_matmul", {tb, std::int64_t{1}}, {b, dy})
                               : g.apply("batch_matmul", {std::int64_t{0}, 1 - tb}, {dy, b}));
  if (g.wanted(1))
    g.set_input_gradient(1, tb ? g.apply("batch_matmul", {std::int64_t{1}, ta}, {dy, a})
                               : g.apply("batch_matmul", {1 - ta, std::int64_t{0}}, {a, dy}));
}

void BatchMatmul::reference(const OpCall& call) const {
  bool ta = int_attribute(call.attributes, 0) != 0, tb = int_attribute(call.attributes, 1) != 0;
  const Dims &y = call.outputs[0].extent, &a = call.inputs[0].extent;
  std::int64_t m = y[y.size() - 2], n = y[y.size() - 1], k = a[a.size() - (ta ? 2 : 1)];
  std::int64_t batches = m * n == 0 ? 0 : call.outputs[0].elements() / (m * n);
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t p = 0; p < batches; ++p) {
      const T* left = call.inputs[0].as<T>() + p * m * k;
      const T* right = call.inputs[1].as<T>() + p * k * n;
      T* out = call.outputs[0].as<T>() + p * m * n;
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          T sum(0);
          for (std::int64_t l = 0; l < k; ++l)
            sum += left[ta ? l * m + i : i * k + l] * right[tb ? j * k + l : l * n + j];
          out[i * n + j] = sum;
        }
    }
  });
}

std::vector<Example> BatchMatmul::examples() const {
  auto attributes = [](std::int64_t ta, std::int64_t tb) { return Attributes{ta, tb}; };
  return {{attributes(0, 0), {{{2, 4, 6}, DType::f32}, {{2, 6, 4}, DType::f32}}},
          {attributes(0, 1), {{{2, 3, 4, 6}, DType::f32}, {{2, 3, 8, 6}, DType::f32}}},
          {attributes(1, 0), {{{2, 6, 4}, DType::f32}, {{2, 6, 4}, DType::f32}}},
          {attributes(1, 1), {{{6, 4}, DType::f32}, {{8, 6}, DType::f32}}}};
}

std::string_view BatchMatmul::axioms() const {
  return R"(
axiom batch_matmul_associative
  batch_matmul(batch_matmul(a, b), c) = batch_matmul(a, batch_matmul(b, c))
axiom batch_matmul_is_matmul
  batch_matmul(a, b) = matmul(a, b)
  where rank(a) == 2
axiom batch_matmul_of_transposed_a_2
  batch_matmul(a, b, transpose_a=1, transpose_b=t) = batch_matmul(transpose([1, 0], a), b, transpose_b=t)
  where rank(a) == 2
axiom batch_matmul_of_transposed_b_2
  batch_matmul(a, b, transpose_a=t, transpose_b=1) = batch_matmul(a, transpose([1, 0], b), transpose_a=t)
  where rank(b) == 2
axiom transpose_of_batch_matmul_2
  transpose([1, 0], batch_matmul(a, b)) = batch_matmul(transpose([1, 0], b), transpose([1, 0], a))
  where rank(a) == 2
axiom batch_matmul_of_transposed_a_3
  batch_matmul(a, b, transpose_a=1, transpose_b=t) = batch_matmul(transpose([0, 2, 1], a), b, transpose_b=t)
  where rank(a) == 3
axiom batch_matmul_of_transposed_b_3
  batch_matmul(a, b, transpose_a=t, transpose_b=1) = batch_matmul(a, transpose([0, 2, 1], b), transpose_a=t)
  where rank(b) == 3
axiom transpose_of_batch_matmul_3
  transpose([0, 2, 1], batch_matmul(a, b)) = batch_matmul(transpose([0, 2, 1], b), transpose([0, 2, 1], a))
  where rank(a) == 3
axiom batch_matmul_of_transposed_a_4
  batch_matmul(a, b, transpose_a=1, transpose_b=t) = batch_matmul(transpose([0, 1, 3, 2], a), b, transpose_b=t)
  where rank(a) == 4
axiom batch_matmul_of_transposed_b_4
  batch_matmul(a, b, transpose_a=t, transpose_b=1) = batch_matmul(a, transpose([0, 1, 3, 2], b), transpose_a=t)
  where rank(b) == 4
axiom transpose_of_batch_matmul_4
  transpose([0, 1, 3, 2], batch_matmul(a, b)) = batch_matmul(transpose([0, 1, 3, 2], b), transpose([0, 1, 3, 2], a))
  where rank(a) == 4
)";
}
UNITY_DEFINE_OPERATOR(batch_matmul, BatchMatmul)

}  // namespace unity
