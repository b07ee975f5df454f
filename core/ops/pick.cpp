#include "core/ops/pick.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {
namespace {

struct Walks {
  AxisTable table;
  OperandAxes x, rows, indices;
};
// c is summed away by the operator, and is parallel in its gradient.
Result<Walks> walks_of(std::string_view op, const Shape& x, const Shape& indices, AxisRole c) {
  if (x.dims.empty()) return fail("{}: x is {}, expected at least 1 dimension", op, to_string(x));
  if (x.dtype == DType::i32) return fail("{}: x is {}, expected real numbers", op, to_string(x));
  if (indices.dtype != DType::i32) return fail("{}: indices are {}, expected i32", op, to_string(indices));
  if (!std::equal(x.dims.begin(), x.dims.end() - 1, indices.dims.begin(), indices.dims.end()))
    return fail("{}: found x {} and indices {}, expected one index for each row", op, to_string(x), to_string(indices));
  Walks w;
  walk_dims(w.table, w.rows, x.dims, 0, x.dims.size() - 1, AxisRole::parallel);
  w.x = w.indices = w.rows;
  w.x.dims.push_back(walk({add_axis(w.table, "c", x.dims.back(), c)}));
  w.x.dtype = w.rows.dtype = x.dtype;
  w.indices.dtype = DType::i32;
  w.table.flops_per_point = 0;
  return w;
}

}  // namespace

std::int64_t picked_position(const Operand& x, const Operand& indices, std::int64_t r) {
  std::int32_t index = indices.as<std::int32_t>()[r];
  if (index < 0 || index >= x.global.back())
    throw_input_error("pick: index is {}, expected 0 to {}", index, x.global.back() - 1);
  std::int64_t at = index - x.offset.back();
  return at >= 0 && at < x.extent.back() ? r * x.extent.back() + at : -1;
}

Result<AxisTable> Pick::axes(const Attributes&, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), in[0], in[1], AxisRole::reduction));
  w.x.linear = true;
  w.table.linearity = Linearity::multilinear;
  w.table.inputs = {w.x, w.indices};
  w.table.outputs = {w.rows};
  return w.table;
}

void Pick::gradient(const Attributes&, GradientBuilder& g) const {
  if (g.wanted(0)) g.set_input_gradient(0, g.apply("pick_gradient", {}, {g.input(1), g.output_gradient(), g.input(0)}));
}

void Pick::reference(const OpCall& call) const {
  const Operand& x = call.inputs[0];
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t r = 0; r < call.outputs[0].elements(); ++r) {
      std::int64_t at = picked_position(x, call.inputs[1], r);
      call.outputs[0].as<T>()[r] = at < 0 ? T(0) : x.as<T>()[at];
    }
  });
}

std::vector<Example> Pick::examples() const {
  return {{{}, {{{4, 6}, DType::f32}, {{4}, DType::i32}}, 6},
          {{}, {{{2, 4, 6}, DType::f32}, {{2, 4}, DType::i32}}, 6},
          {{}, {{{6}, DType::f32}, {{}, DType::i32}}, 6}};
}
std::optional<std::int64_t> Pick::index_bound(const Attributes&, std::span<const Shape> in, std::size_t k) const {
  return k == 1 ? std::optional(in[0].dims.back()) : std::nullopt;
}
std::optional<std::int64_t> Pick::elements_read(std::span<const Shape>, const Shape& y, std::size_t k) const {
  return k == 0 ? std::optional(y.elements()) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(pick, Pick)

Result<AxisTable> PickGradient::axes(const Attributes&, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), in[2], in[0], AxisRole::parallel));
  Shape expected = operand_shape(w.table, w.rows);
  if (in[1] != expected)
    return fail("pick_gradient: operand 1 is {}, expected {}", to_string(in[1]), to_string(expected));
  w.table.outputs = {w.x};
  w.x.shape_only = true;
  w.rows.linear = true;
  w.table.linearity = Linearity::multilinear;
  w.table.inputs = {w.indices, w.rows, w.x};
  return w.table;
}

void PickGradient::reference(const OpCall& call) const {
  const Operand& dx = call.outputs[0];
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(dx.as<T>(), dx.elements(), T(0));
    for (std::int64_t r = 0; r < call.inputs[1].elements(); ++r) {
      std::int64_t at = picked_position(dx, call.inputs[0], r);
      if (at >= 0) dx.as<T>()[at] = call.inputs[1].as<T>()[r];
    }
  });
}

std::vector<Example> PickGradient::examples() const {
  return {{{}, {{{4}, DType::i32}, {{4}, DType::f32}, {{4, 6}, DType::f32}}, 6},
          {{}, {{{2, 4}, DType::i32}, {{2, 4}, DType::f32}, {{2, 4, 6}, DType::f32}}, 6}};
}
std::optional<std::int64_t> PickGradient::index_bound(const Attributes&, std::span<const Shape> in,
                                                      std::size_t k) const {
  return k == 0 ? std::optional(in[2].dims.back()) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(pick_gradient, PickGradient)

}  // namespace unity
