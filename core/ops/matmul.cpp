#include "core/ops/matmul.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> Matmul::attributes() const {
  return {{"activation", AttributeKind::text, false, std::string("none")},
          {"transpose_w", AttributeKind::integer, false, std::int64_t{0}}};
}

Result<AxisTable> Matmul::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_flag(*this, a, 1));
  const Dims& x = in[0].dims;
  const Dims& w = in[1].dims;
  bool linear = text_attribute(a, 0) == "none", transposed = int_attribute(a, 1) != 0;
  if (!linear && text_attribute(a, 0) != "relu")
    return fail("matmul: activation is '{}', expected none or relu", text_attribute(a, 0));
  if (x.empty() || w.size() != 2)
    return fail("matmul: found x {} and w {}, expected rank of x at least 1 and of w 2", to_string(in[0]),
                to_string(in[1]));
  std::int64_t k = transposed ? w[1] : w[0], n = transposed ? w[0] : w[1];
  if (x.back() != k) return fail("matmul: axis k is {} in x but {} in w", x.back(), k);
  AxisTable t;
  OperandAxes xa, ya;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    t.axes.push_back({i + 2 == x.size() ? "m" : fmt::format("b{}", i), x[i], AxisRole::parallel});
    xa.dims.push_back({{static_cast<int>(i)}, std::nullopt, 0});
  }
  ya = xa;
  int n_axis = static_cast<int>(t.axes.size()), k_axis = n_axis + 1;
  t.axes.push_back({"n", n, AxisRole::parallel});
  t.axes.push_back({"k", k, linear ? AxisRole::reduction : AxisRole::whole});
  xa.dims.push_back({{k_axis}, std::nullopt, 0});
  ya.dims.push_back({{n_axis}, std::nullopt, 0});
  OperandAxes wa = transposed ? walks(n_axis, k_axis) : walks(k_axis, n_axis);
  xa.linear = wa.linear = linear;
  xa.dtype = wa.dtype = ya.dtype = in[0].dtype;
  t.linearity = linear ? Linearity::multilinear : Linearity::none;
  t.inputs = {xa, wa};
  t.outputs = {ya};
  t.flops_per_point = 2;
  return t;
}

void Matmul::gradient(const Attributes& a, GradientBuilder& g) const {
  GradientValue dy = g.output_gradient();
  if (text_attribute(a, 0) == "relu") dy = g.apply("relu_gradient", {}, {g.output(), dy});
  bool transposed = int_attribute(a, 1) != 0;
  if (g.wanted(0))
    g.set_input_gradient(0, g.apply("matmul", {std::string("none"), std::int64_t{!transposed}}, {dy, g.input(1)}));
  if (g.wanted(1))
    g.set_input_gradient(1, transposed ? g.apply("matmul_weight_gradient", {}, {dy, g.input(0)})
                                       : g.apply("matmul_weight_gradient", {}, {g.input(0), dy}));
}

void Matmul::reference(const OpCall& call) const {
  bool relu = text_attribute(call.attributes, 0) == "relu", transposed = int_attribute(call.attributes, 1) != 0;
  dispatch_reference(call, [&]<class T>() {
    const T* x = call.inputs[0].as<T>();
    const T* w = call.inputs[1].as<T>();
    T* y = call.outputs[0].as<T>();
    std::int64_t k = call.inputs[0].extent.back(), n = call.outputs[0].extent.back();
    std::int64_t rows = k ? call.inputs[0].elements() / k : 0;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        T sum(0);
        for (std::int64_t l = 0; l < k; ++l) sum += x[i * k + l] * w[transposed ? j * k + l : l * n + j];
        y[i * n + j] = relu ? num::apply(num::Function::relu, sum) : sum;
      }
  });
}

std::vector<Example> Matmul::examples() const {
  auto attributes = [](const char* act, std::int64_t t) { return Attributes{std::string(act), t}; };
  return {{attributes("none", 0), {{{4, 6}, DType::f32}, {{6, 8}, DType::f32}}},
          {attributes("relu", 0), {{{4, 6}, DType::f32}, {{6, 8}, DType::f32}}},
          {attributes("none", 1), {{{2, 4, 6}, DType::f32}, {{8, 6}, DType::f32}}},
          {attributes("relu", 1), {{{4, 6}, DType::f32}, {{8, 6}, DType::f32}}},
          {attributes("none", 0), {{{2, 4, 6}, DType::f32}, {{6, 4}, DType::f32}}}};
}

// Through ReLU, what is added would have to come behind it.
std::string_view Matmul::accumulating(const Attributes& attributes) const {
  return text_attribute(attributes, 0) == "none" ? "matmul_accumulate" : "";
}

std::string_view Matmul::axioms() const {
  return R"(
axiom matmul_activation
  relu(matmul(x, w, transpose_w=t)) = matmul(x, w, activation="relu", transpose_w=t)
axiom matmul_associative
  matmul(matmul(x, y), z) = matmul(x, matmul(y, z))
axiom matmul_of_transposed
  matmul(x, w, transpose_w=1, activation=f) = matmul(x, transpose([1, 0], w), activation=f)
axiom transpose_of_matmul
  transpose([1, 0], matmul(x, y)) = matmul(transpose([1, 0], y), transpose([1, 0], x))
)";
}
UNITY_DEFINE_OPERATOR(matmul, Matmul)

Result<AxisTable> MatmulWeightGradient::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  const Dims& x = in[0].dims;
  const Dims& dy = in[1].dims;
  if (x.empty() || x.size() != dy.size() || !std::equal(x.begin(), x.end() - 1, dy.begin()))
    return fail("{}: found x {} and dy {}, expected the same rows", name(), to_string(in[0]), to_string(in[1]));
  AxisTable t;
  OperandAxes xa;
  t.axes = {{"k", x.back(), AxisRole::parallel}, {"n", dy.back(), AxisRole::parallel}};
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    xa.dims.push_back({{static_cast<int>(t.axes.size())}, std::nullopt, 0});
    t.axes.push_back({i + 2 == x.size() ? "m" : fmt::format("b{}", i), x[i], AxisRole::reduction});
  }
  OperandAxes ya = xa;
  xa.dims.push_back({{0}, std::nullopt, 0});
  ya.dims.push_back({{1}, std::nullopt, 0});
  xa.linear = ya.linear = true;
  OperandAxes dw = walks(0, 1);
  xa.dtype = ya.dtype = dw.dtype = in[0].dtype;
  t.linearity = Linearity::multilinear;
  t.inputs = {xa, ya};
  t.outputs = {dw};
  t.flops_per_point = 2;
  return t;
}

void MatmulWeightGradient::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    const T* x = call.inputs[0].as<T>();
    const T* dy = call.inputs[1].as<T>();
    T* dw = call.outputs[0].as<T>();
    std::int64_t k = call.outputs[0].extent[0], n = call.outputs[0].extent[1];
    std::int64_t rows = k ? call.inputs[0].elements() / k : 0;
    std::fill_n(dw, k * n, T(0));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t l = 0; l < k; ++l)
        for (std::int64_t j = 0; j < n; ++j) dw[l * n + j] += x[i * k + l] * dy[i * n + j];
  });
}

std::vector<Example> MatmulWeightGradient::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4, 8}, DType::f32}}}, {{}, {{{2, 4, 6}, DType::f32}, {{2, 4, 8}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(matmul_weight_gradient, MatmulWeightGradient)

}  // namespace unity
