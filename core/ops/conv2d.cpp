#include "core/ops/conv2d.h"

#include <algorithm>

namespace unity {
namespace {

const std::vector<AttributeSpec> kGeometry = {{"stride", AttributeKind::integers, false, Dims{1, 1}},
                                              {"padding", AttributeKind::integers, false, Dims{0, 0, 0, 0}},
                                              {"dilation", AttributeKind::integers, false, Dims{1, 1}},
                                              {"groups", AttributeKind::integer, false, std::int64_t{1}}};

// The loops of a convolution, with the operands that walk them.
struct Loops {
  AxisTable table;
  OperandAxes x, w, y;
};

Result<Loops> loops(std::string_view op, const Attributes& a, const Shape& xs, const Shape& ws) {
  if (ws.dims.size() != 4)
    return fail("{}: w is {}, expected 4 dimensions: [co, c / groups, kh, kw]", op, to_string(ws));
  Windows windows = UNITY_TRY(conv2d_windows(op, a, xs.dims, ws.dims));
  std::int64_t groups = conv2d_groups(a), c = xs.dims[1], co = ws.dims[0];
  if (groups < 1 || c % groups != 0 || co % groups != 0)
    return fail("{}: {} groups, expected a divisor of the {} channels of x and the {} of w", op, groups, c, co);
  if (ws.dims[1] * groups != c)
    return fail("{}: axis ci is {} in w but {} in x ({} channels in {} groups)", op, ws.dims[1], c / groups, c, groups);
  Loops l;
  AxisTable& t = l.table;
  int n = add_axis(t, "n", xs.dims[0], AxisRole::parallel), g = add_axis(t, "g", groups, AxisRole::parallel);
  int o = add_axis(t, "co", co / groups, AxisRole::parallel);
  int oh = add_axis(t, "oh", windows.output[0], AxisRole::window);
  int ow = add_axis(t, "ow", windows.output[1], AxisRole::window);
  int i = add_axis(t, "ci", c / groups, AxisRole::reduction);
  int kh = add_axis(t, "kh", ws.dims[2], AxisRole::whole), kw = add_axis(t, "kw", ws.dims[3], AxisRole::whole);
  l.x.dims = {walk({n}), walk({g, i}), windowed(oh, windows, 0), windowed(ow, windows, 1)};
  l.w.dims = {walk({g, o}), walk({i}), walk({kh}), walk({kw})};
  l.y.dims = {walk({n}), walk({g, o}), walk({oh}), walk({ow})};
  l.x.dtype = l.w.dtype = l.y.dtype = xs.dtype;
  t.flops_per_point = 2;
  return l;
}

Result<void> expect_result(std::string_view op, const Loops& l, const Shape& dy) {
  Shape expected = operand_shape(l.table, l.y);
  if (dy != expected) return fail("{}: operand 1 is {}, expected {}", op, to_string(dy), to_string(expected));
  return {};
}

void set_roles(AxisTable& t, AxisRole n, AxisRole co, AxisRole spatial, AxisRole ci) {
  t.axes[0].role = n, t.axes[2].role = co, t.axes[3].role = t.axes[4].role = spatial, t.axes[5].role = ci;
}

// Calls f(index in x, index in w, index in y) for every product of a block of the convolution.
template <class F>
void for_each_product(const OpCall& call, const Operand& x, const Operand& w, const Operand& y, F&& f) {
  Windows windows = conv2d_windows("conv2d", call.attributes, x.global, w.global).value();
  std::int64_t groups = conv2d_groups(call.attributes);
  std::int64_t ci = w.extent[1], co = w.global[0] / groups;
  auto inside = [](const Operand& operand, std::size_t d, std::int64_t at) {
    return at >= operand.offset[d] && at < operand.offset[d] + operand.extent[d];
  };
  for_each_index(y.extent, [&](const Dims& at, std::int64_t to) {
    std::int64_t o = y.offset[1] + at[1], first = o / co * (w.global[1]) + w.offset[1] - x.offset[1];
    if (!inside(w, 0, o)) return;
    for (std::int64_t i = 0; i < ci; ++i)
      for_window(windows.window[0], windows.input[0], y.offset[2] + at[2], [&](std::int64_t kh, std::int64_t h) {
        for_window(windows.window[1], windows.input[1], y.offset[3] + at[3], [&](std::int64_t kw, std::int64_t v) {
          if (!inside(x, 2, h) || !inside(x, 3, v)) return;
          std::int64_t from =
              ((at[0] * x.extent[1] + first + i) * x.extent[2] + h - x.offset[2]) * x.extent[3] + v - x.offset[3];
          std::int64_t k = (((o - w.offset[0]) * ci + i) * w.extent[2] + kh) * w.extent[3] + kw;
          f(from, k, to);
        });
      });
  });
}

Attributes geometry(const Attributes& a) { return {a.begin(), a.begin() + 4}; }

Attributes attributes(Dims stride, Dims padding, Dims dilation, std::int64_t groups) {
  return {std::move(stride), std::move(padding), std::move(dilation), groups};
}

// Instances: plain with padding; strided, asymmetric and dilated; grouped; depthwise with a rectangular kernel.
struct Instance {
  Attributes geometry;
  Dims x, w, y;
};
std::vector<Instance> instances() {
  return {{attributes({1, 1}, {1, 1, 1, 1}, {1, 1}, 1), {2, 4, 6, 6}, {6, 4, 3, 3}, {2, 6, 6, 6}},
          {attributes({2, 1}, {1, 0, 0, 2}, {1, 2}, 1), {2, 2, 7, 5}, {2, 2, 2, 3}, {2, 2, 4, 3}},
          {attributes({1, 1}, {0, 0, 0, 0}, {1, 1}, 2), {2, 4, 4, 4}, {6, 2, 1, 1}, {2, 6, 4, 4}},
          {attributes({2, 2}, {1, 0, 1, 0}, {1, 1}, 4), {1, 4, 6, 6}, {4, 1, 3, 1}, {1, 4, 3, 3}}};
}

}  // namespace

Result<Windows> conv2d_windows(std::string_view op, const Attributes& a, const Dims& x, const Dims& w) {
  return spatial_windows(op, x, {w[2], w[3]}, ints_attribute(a, 0), ints_attribute(a, 1), ints_attribute(a, 2));
}

std::vector<AttributeSpec> Conv2d::attributes() const {
  std::vector<AttributeSpec> specs = kGeometry;
  specs.push_back({"activation", AttributeKind::text, false, std::string("none")});
  return specs;
}

Result<AxisTable> Conv2d::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  if (text_attribute(a, 4) != "none" && text_attribute(a, 4) != "relu")
    return fail("conv2d: activation is '{}', expected none or relu", text_attribute(a, 4));
  Loops l = UNITY_TRY(loops(name(), a, in[0], in[1]));
  bool linear = !conv2d_relu(a);
  if (!linear) set_roles(l.table, AxisRole::parallel, AxisRole::parallel, AxisRole::window, AxisRole::whole);
  l.x.linear = l.w.linear = linear;
  l.table.linearity = linear ? Linearity::multilinear : Linearity::none;
  l.table.inputs = {l.x, l.w};
  l.table.outputs = {l.y};
  return l.table;
}

void Conv2d::gradient(const Attributes& a, GradientBuilder& g) const {
  GradientValue dy = g.output_gradient();
  if (conv2d_relu(a)) dy = g.apply("relu_gradient", {}, {g.output(), dy});
  if (g.wanted(0)) g.set_input_gradient(0, g.apply("conv2d_input_gradient", geometry(a), {g.input(1), dy, g.input(0)}));
  if (g.wanted(1))
    g.set_input_gradient(1, g.apply("conv2d_weight_gradient", geometry(a), {g.input(0), dy, g.input(1)}));
}

void Conv2d::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &w = call.inputs[1], &y = call.outputs[0];
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(y.as<T>(), y.elements(), T(0));
    for_each_product(call, x, w, y, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
      y.as<T>()[o] += x.as<T>()[i] * w.as<T>()[k];
    });
    if (conv2d_relu(call.attributes))
      for (std::int64_t i = 0; i < y.elements(); ++i) y.as<T>()[i] = num::apply(num::Function::relu, y.as<T>()[i]);
  });
}

std::vector<Example> Conv2d::examples() const {
  std::vector<Example> examples;
  for (const Instance& i : instances()) examples.push_back({i.geometry, {{i.x, DType::f32}, {i.w, DType::f32}}});
  examples.push_back(examples[0]);
  examples.back().attributes.push_back(std::string("relu"));
  return examples;
}

std::string_view Conv2d::axioms() const {
  return R"(
axiom conv2d_activation
  relu(conv2d(x, w, stride=s, padding=p, dilation=d, groups=g))
    = conv2d(x, w, stride=s, padding=p, dilation=d, groups=g, activation="relu")
axiom conv2d_of_joined_groups
  concat(1, conv2d(x, w, stride=s, padding=p, dilation=d, groups=g, activation=f),
            conv2d(y, v, stride=s, padding=p, dilation=d, groups=g, activation=f))
    = conv2d(concat(1, x, y), concat(0, w, v), stride=s, padding=p, dilation=d, groups=g + g, activation=f)
  where dim(x, 1) == dim(y, 1), dim(x, 2) == dim(y, 2), dim(x, 3) == dim(y, 3),
        dim(w, 0) == dim(v, 0), dim(w, 2) == dim(v, 2), dim(w, 3) == dim(v, 3)
axiom conv2d_of_padded
  conv2d(pad([0, 0, 1, 1], [0, 0, 1, 1], x), w, stride=s, dilation=d, groups=g, activation=f)
    = conv2d(x, w, stride=s, padding=[1, 1, 1, 1], dilation=d, groups=g, activation=f)
axiom conv2d_of_padded_kernel
  conv2d(x, pad([0, 0, 1, 1], [0, 0, 1, 1], w), stride=s, padding=[1, 1, 1, 1], groups=g, activation=f)
    = conv2d(x, w, stride=s, groups=g, activation=f)
axiom conv2d_of_padded_operands
  conv2d(pad([0, 0, 1, 1], [0, 0, 1, 1], x), pad([0, 0, 1, 1], [0, 0, 1, 1], w), stride=s, padding=p, groups=g,
         activation=f)
    = conv2d(x, w, stride=s, padding=p, groups=g, activation=f)
axiom conv2d_of_single_elements
  pad([0, 0, 1, 1], [0, 0, 1, 1], conv2d(x, w, groups=g)) = conv2d(x, w, padding=[1, 1, 1, 1], groups=g)
  where dim(w, 2) == 1, dim(w, 3) == 1
axiom conv2d_without_border
  conv2d(conv2d(x, w, padding=[1, 1, 1, 1], dilation=d, groups=g, activation=f),
         pad([0, 0, 1, 1], [0, 0, 1, 1], v), groups=h, activation=k)
    = conv2d(conv2d(x, w, dilation=d, groups=g, activation=f), v, groups=h, activation=k)
axiom conv2d_of_conv2d_of_padded_kernel
  conv2d(conv2d(x, pad([0, 0, 1, 1], [0, 0, 1, 1], w), padding=p, dilation=d, groups=g, activation=f), v,
         dilation=d, groups=h, activation=k)
    = conv2d(conv2d(x, w, padding=p, dilation=d, groups=g, activation=f),
             pad([0, 0, 1, 1], [0, 0, 1, 1], v), dilation=d, groups=h, activation=k)
axiom conv2d_of_scaled_filters
  conv2d(x, mul(w, reshape([dim(w, 0), 1, 1, 1], s)), stride=k, padding=p, dilation=d, groups=g)
    = mul(conv2d(x, w, stride=k, padding=p, dilation=d, groups=g), reshape([dim(w, 0), 1, 1], s))
  where rank(w) == 4
)";
}
UNITY_DEFINE_OPERATOR(conv2d, Conv2d)

std::vector<AttributeSpec> Conv2dInputGradient::attributes() const { return kGeometry; }

// Results of neighbouring windows overlap in x, so a split of oh or ow is left to the movement around the operator.
Result<AxisTable> Conv2dInputGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  Loops l = UNITY_TRY(loops(name(), a, in[2], in[0]));
  UNITY_TRY(expect_result(name(), l, in[1]));
  set_roles(l.table, AxisRole::parallel, AxisRole::reduction, AxisRole::whole, AxisRole::parallel);
  l.table.outputs = {l.x};
  l.w.linear = l.y.linear = true;
  l.x.shape_only = true;
  l.table.linearity = Linearity::multilinear;
  l.table.inputs = {l.w, l.y, l.x};
  return l.table;
}

void Conv2dInputGradient::reference(const OpCall& call) const {
  const Operand &w = call.inputs[0], &dy = call.inputs[1], &dx = call.outputs[0];
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(dx.as<T>(), dx.elements(), T(0));
    for_each_product(call, dx, w, dy, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
      dx.as<T>()[i] += dy.as<T>()[o] * w.as<T>()[k];
    });
  });
}

std::vector<Example> Conv2dInputGradient::examples() const {
  std::vector<Example> examples;
  for (const Instance& i : instances())
    examples.push_back({i.geometry, {{i.w, DType::f32}, {i.y, DType::f32}, {i.x, DType::f32}}});
  return examples;
}
UNITY_DEFINE_OPERATOR(conv2d_input_gradient, Conv2dInputGradient)

std::vector<AttributeSpec> Conv2dWeightGradient::attributes() const { return kGeometry; }

Result<AxisTable> Conv2dWeightGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  Loops l = UNITY_TRY(loops(name(), a, in[0], in[2]));
  UNITY_TRY(expect_result(name(), l, in[1]));
  set_roles(l.table, AxisRole::reduction, AxisRole::parallel, AxisRole::reduction, AxisRole::parallel);
  l.table.outputs = {l.w};
  l.x.linear = l.y.linear = true;
  l.w.shape_only = true;
  l.table.linearity = Linearity::multilinear;
  l.table.inputs = {l.x, l.y, l.w};
  return l.table;
}

void Conv2dWeightGradient::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &dy = call.inputs[1], &dw = call.outputs[0];
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(dw.as<T>(), dw.elements(), T(0));
    for_each_product(call, x, dw, dy, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
      dw.as<T>()[k] += dy.as<T>()[o] * x.as<T>()[i];
    });
  });
}

std::vector<Example> Conv2dWeightGradient::examples() const {
  std::vector<Example> examples;
  for (const Instance& i : instances())
    examples.push_back({i.geometry, {{i.x, DType::f32}, {i.y, DType::f32}, {i.w, DType::f32}}});
  return examples;
}
UNITY_DEFINE_OPERATOR(conv2d_weight_gradient, Conv2dWeightGradient)

}  // namespace unity
