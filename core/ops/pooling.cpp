#include "core/ops/pooling.h"

#include <algorithm>

namespace unity {
namespace {

std::vector<AttributeSpec> geometry(AttributeSpec last) {
  return {{"kernel", AttributeKind::integers, true, {}},
          {"stride", AttributeKind::integers, false, Dims{1, 1}},
          {"padding", AttributeKind::integers, false, Dims{0, 0, 0, 0}},
          std::move(last)};
}
const AttributeSpec kDilation = {"dilation", AttributeKind::integers, false, Dims{1, 1}};
const AttributeSpec kCountIncludePad = {"count_include_pad", AttributeKind::integer, false, std::int64_t{1}};

struct Loops {
  AxisTable table;
  OperandAxes x, y;
};
Loops loops(const Windows& windows, const Shape& x, AxisRole spatial) {
  Loops l;
  int n = add_axis(l.table, "n", x.dims[0], AxisRole::parallel),
      c = add_axis(l.table, "c", x.dims[1], AxisRole::parallel);
  int oh = add_axis(l.table, "oh", windows.output[0], spatial),
      ow = add_axis(l.table, "ow", windows.output[1], spatial);
  l.x.dims = {walk({n}), walk({c}), windowed(oh, windows, 0), windowed(ow, windows, 1)};
  l.y.dims = {walk({n}), walk({c}), walk({oh}), walk({ow})};
  l.x.dtype = l.y.dtype = x.dtype;
  l.table.flops_per_point = static_cast<double>(windows.window[0].kernel * windows.window[1].kernel);
  return l;
}

Result<void> expect_result(std::string_view op, const Loops& l, const Shape& dy, int operand) {
  Shape expected = operand_shape(l.table, l.y);
  if (dy != expected) return fail("{}: operand {} is {}, expected {}", op, operand, to_string(dy), to_string(expected));
  return {};
}

// Calls f(result, first, last) for each element of a block of the result, then visit(index in the block of x) for each
// position of its window that lies in x.
template <class Begin, class Visit, class End>
void for_each_window(const Windows& windows, const Operand& x, const Operand& y, Begin&& begin, Visit&& visit,
                     End&& end) {
  for_each_index(y.extent, [&](const Dims& at, std::int64_t o) {
    begin(o);
    std::int64_t plane = (at[0] * x.extent[1] + at[1]) * x.extent[2];
    for_window(windows.window[0], windows.input[0], y.offset[2] + at[2], [&](std::int64_t, std::int64_t h) {
      for_window(windows.window[1], windows.input[1], y.offset[3] + at[3], [&](std::int64_t, std::int64_t w) {
        visit(o, (plane + h - x.offset[2]) * x.extent[3] + w - x.offset[3]);
      });
    });
    end(o);
  });
}

// The number of positions that a window's sum is divided by.
std::int64_t divisor(const Windows& windows, const Dims& at, bool include_pad) {
  std::int64_t count = 1;
  for (std::size_t d : {0, 1}) {
    const Window& w = windows.window[d];
    std::int64_t inside = 0;
    for_window(w, windows.input[d], at[d + 2], [&](std::int64_t, std::int64_t) { ++inside; });
    count *= include_pad ? w.kernel : inside;
  }
  return std::max<std::int64_t>(count, 1);
}

Dims logical_index(const Operand& y, std::int64_t o) {
  Dims at(4);
  for (std::size_t d = 4; d-- > 0;) at[d] = y.offset[d] + o % y.extent[d], o /= y.extent[d];
  return at;
}

// Whether the window that begins at this position has an element of the image.
bool has_element(const Window& w, std::int64_t input, std::int64_t begin) {
  const std::int64_t first = begin >= 0 ? 0 : (-begin + w.dilation - 1) / w.dilation;  // that is not before it
  return first < w.kernel && begin + first * w.dilation < input;
}

}  // namespace

// Each window has an element of the image, as the largest of none is no number.
Result<Windows> max_pool2d_windows(std::string_view op, const Attributes& a, const Dims& x) {
  Windows windows = UNITY_TRY(
      spatial_windows(op, x, ints_attribute(a, 0), ints_attribute(a, 1), ints_attribute(a, 2), ints_attribute(a, 3)));
  for (std::size_t d : {0, 1}) {
    const Window& w = windows.window[d];
    const std::int64_t last = windows.output[d] - 1;
    bool all = has_element(w, windows.input[d], last * w.stride - w.pad_before);
    for (std::int64_t o = 0; all && o < last && o * w.stride < w.pad_before; ++o)
      all = has_element(w, windows.input[d], o * w.stride - w.pad_before);
    if (!all)
      return fail("{}: padding is {}, expected less: a window of {} has no element of dimension {}, of size {}", op,
                  to_string(a[2]), w.kernel, d + 2, windows.input[d]);
  }
  return windows;
}
Result<Windows> avg_pool2d_windows(std::string_view op, const Attributes& a, const Dims& x) {
  return spatial_windows(op, x, ints_attribute(a, 0), ints_attribute(a, 1), ints_attribute(a, 2), {1, 1});
}

std::vector<AttributeSpec> MaxPool2d::attributes() const { return geometry(kDilation); }

Result<AxisTable> MaxPool2d::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  Loops l = loops(UNITY_TRY(max_pool2d_windows(name(), a, in[0].dims)), in[0], AxisRole::window);
  l.table.inputs = {l.x};
  l.table.outputs = {l.y};
  return l.table;
}

void MaxPool2d::gradient(const Attributes& a, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("max_pool2d_gradient", a, {g.input(0), g.output_gradient()}));
}

void MaxPool2d::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Windows windows = max_pool2d_windows(name(), call.attributes, x.global).value();
  dispatch_reference(call, [&]<class T>() {
    std::int64_t best = -1;
    for_each_window(
        windows, x, y, [&](std::int64_t) { best = -1; },
        [&](std::int64_t, std::int64_t i) {
          if (best < 0 || takes_place_of(x.as<T>()[i], x.as<T>()[best], true)) best = i;
        },
        [&](std::int64_t o) { y.as<T>()[o] = best < 0 ? T(0) : x.as<T>()[best]; });
  });
}

std::vector<Example> MaxPool2d::examples() const {
  return {{{Dims{2, 2}, Dims{2, 2}}, {{{2, 4, 6, 6}, DType::f32}}},
          {{Dims{3, 3}, Dims{2, 2}, Dims{1, 1, 1, 1}}, {{{1, 2, 7, 6}, DType::f32}}},
          {{Dims{2, 3}, Dims{1, 1}, Dims{0, 1, 1, 0}, Dims{2, 1}}, {{{1, 2, 5, 4}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(max_pool2d, MaxPool2d)

std::vector<AttributeSpec> MaxPool2dGradient::attributes() const { return geometry(kDilation); }

Result<AxisTable> MaxPool2dGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  Loops l = loops(UNITY_TRY(max_pool2d_windows(name(), a, in[0].dims)), in[0], AxisRole::whole);
  UNITY_TRY(expect_result(name(), l, in[1], 1));
  OperandAxes dx = l.x;
  l.y.linear = true;
  l.table.inputs = {l.x, l.y};
  l.table.outputs = {dx};
  l.table.linearity = Linearity::multilinear;
  return l.table;
}

void MaxPool2dGradient::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &dy = call.inputs[1], &dx = call.outputs[0];
  Windows windows = max_pool2d_windows(name(), call.attributes, x.global).value();
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(dx.as<T>(), dx.elements(), T(0));
    std::int64_t best = -1;
    for_each_window(
        windows, x, dy, [&](std::int64_t) { best = -1; },
        [&](std::int64_t, std::int64_t i) {
          if (best < 0 || takes_place_of(x.as<T>()[i], x.as<T>()[best], true)) best = i;
        },
        [&](std::int64_t o) {
          if (best >= 0) dx.as<T>()[best] += dy.as<T>()[o];
        });
  });
}

std::vector<Example> MaxPool2dGradient::examples() const {
  return {{{Dims{2, 2}, Dims{2, 2}}, {{{2, 4, 6, 6}, DType::f32}, {{2, 4, 3, 3}, DType::f32}}},
          {{Dims{3, 3}, Dims{2, 2}, Dims{1, 1, 1, 1}}, {{{1, 2, 7, 6}, DType::f32}, {{1, 2, 4, 3}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(max_pool2d_gradient, MaxPool2dGradient)

std::vector<AttributeSpec> AvgPool2d::attributes() const { return geometry(kCountIncludePad); }

Result<AxisTable> AvgPool2d::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_flag(*this, a, 3));
  Loops l = loops(UNITY_TRY(avg_pool2d_windows(name(), a, in[0].dims)), in[0], AxisRole::window);
  l.x.linear = true;
  l.table.inputs = {l.x};
  l.table.outputs = {l.y};
  l.table.linearity = Linearity::multilinear;
  return l.table;
}

void AvgPool2d::gradient(const Attributes& a, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("avg_pool2d_gradient", a, {g.output_gradient(), g.input(0)}));
}

double avg_pool2d_factor(const Windows& windows, const Dims& at, bool include_pad) {
  return 1.0 / static_cast<double>(divisor(windows, at, include_pad));
}

void AvgPool2d::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Windows windows = avg_pool2d_windows(name(), call.attributes, x.global).value();
  bool include = int_attribute(call.attributes, 3) != 0;
  dispatch_reference(call, [&]<class T>() {
    for_each_window(
        windows, x, y, [&](std::int64_t o) { y.as<T>()[o] = T(0); },
        [&](std::int64_t o, std::int64_t i) { y.as<T>()[o] += x.as<T>()[i]; },
        [&](std::int64_t o) { y.as<T>()[o] *= constant<T>(avg_pool2d_factor(windows, logical_index(y, o), include)); });
  });
}

std::vector<Example> AvgPool2d::examples() const {
  return {{{Dims{2, 2}, Dims{2, 2}}, {{{2, 4, 6, 6}, DType::f32}}},
          {{Dims{3, 3}, Dims{1, 1}, Dims{1, 1, 1, 1}}, {{{1, 2, 5, 6}, DType::f32}}},
          {{Dims{3, 3}, Dims{2, 2}, Dims{0, 1, 1, 1}, std::int64_t{0}}, {{{1, 2, 6, 7}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(avg_pool2d, AvgPool2d)

std::vector<AttributeSpec> AvgPool2dGradient::attributes() const { return geometry(kCountIncludePad); }

Result<AxisTable> AvgPool2dGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_flag(*this, a, 3));
  Loops l = loops(UNITY_TRY(avg_pool2d_windows(name(), a, in[1].dims)), in[1], AxisRole::whole);
  UNITY_TRY(expect_result(name(), l, in[0], 0));
  l.table.outputs = {l.x};
  l.y.linear = true;
  l.x.shape_only = true;
  l.table.inputs = {l.y, l.x};
  l.table.linearity = Linearity::multilinear;
  return l.table;
}

void AvgPool2dGradient::reference(const OpCall& call) const {
  const Operand &dy = call.inputs[0], &dx = call.outputs[0];
  Windows windows = avg_pool2d_windows(name(), call.attributes, dx.global).value();
  bool include = int_attribute(call.attributes, 3) != 0;
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(dx.as<T>(), dx.elements(), T(0));
    T share(0);
    for_each_window(
        windows, dx, dy,
        [&](std::int64_t o) {
          share = dy.as<T>()[o] * constant<T>(avg_pool2d_factor(windows, logical_index(dy, o), include));
        },
        [&](std::int64_t, std::int64_t i) { dx.as<T>()[i] += share; }, [](std::int64_t) {});
  });
}

std::vector<Example> AvgPool2dGradient::examples() const {
  return {{{Dims{2, 2}, Dims{2, 2}}, {{{2, 4, 3, 3}, DType::f32}, {{2, 4, 6, 6}, DType::f32}}},
          {{Dims{3, 3}, Dims{2, 2}, Dims{0, 1, 1, 1}, std::int64_t{0}},
           {{{1, 2, 3, 4}, DType::f32}, {{1, 2, 6, 7}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(avg_pool2d_gradient, AvgPool2dGradient)

}  // namespace unity
