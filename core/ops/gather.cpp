#include "core/ops/gather.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kDim = {{"dim", AttributeKind::integer, true, {}}};

struct Walks {
  AxisTable table;
  OperandAxes x, indices, y;
};
// Roles of the indices' dimensions and of n differ between the operator and its gradient.
Result<Walks> walks_of(std::string_view op, const Attributes& a, const Shape& x, const Shape& indices, AxisRole index,
                       AxisRole n) {
  std::int64_t dim = int_attribute(a, 0);
  if (dim < 0 || dim >= static_cast<std::int64_t>(x.dims.size()))
    return fail("{}: dimension is {}, expected one of {}", op, dim, to_string(x));
  if (indices.dtype != DType::i32) return fail("{}: indices are {}, expected i32", op, to_string(indices));
  Walks w;
  auto d = static_cast<std::size_t>(dim);
  walk_dims(w.table, w.y, x.dims, 0, d, AxisRole::parallel);
  w.x = w.y;
  OperandAxes ids;
  walk_dims(w.table, ids, indices.dims, 0, indices.dims.size(), index);
  w.indices = ids;
  w.y.dims.insert(w.y.dims.end(), ids.dims.begin(), ids.dims.end());
  w.x.dims.push_back(walk({add_axis(w.table, "n", x.dims[d], n)}));
  for (std::size_t i = d + 1; i < x.dims.size(); ++i) {
    DimAxes after = walk({add_axis(w.table, fmt::format("e{}", i), x.dims[i], AxisRole::parallel)});
    w.x.dims.push_back(after);
    w.y.dims.push_back(after);
  }
  w.x.dtype = w.y.dtype = x.dtype;
  w.indices.dtype = DType::i32;
  w.table.flops_per_point = 0;
  return w;
}

}  // namespace

std::int64_t GatherLoops::row(std::int32_t index) const {
  if (index < 0 || index >= global) throw_input_error("gather: index is {}, expected 0 to {}", index, global - 1);
  std::int64_t at = index - offset;
  return at >= 0 && at < n ? at : -1;
}

GatherLoops gather_loops(std::int64_t dim, const Operand& x) {
  auto d = static_cast<std::size_t>(dim);
  GatherLoops l;
  for (std::size_t i = 0; i < d; ++i) l.outer *= x.extent[i];
  for (std::size_t i = d + 1; i < x.extent.size(); ++i) l.inner *= x.extent[i];
  l.n = x.extent[d], l.offset = x.offset[d], l.global = x.global[d];
  return l;
}

std::vector<AttributeSpec> Gather::attributes() const { return kDim; }

Result<AxisTable> Gather::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in.first(1)));
  Walks w = UNITY_TRY(walks_of(name(), a, in[0], in[1], AxisRole::parallel, AxisRole::reduction));
  w.x.linear = true;
  w.table.linearity = Linearity::multilinear;
  w.table.inputs = {w.x, w.indices};
  w.table.outputs = {w.y};
  return w.table;
}

void Gather::gradient(const Attributes& a, GradientBuilder& g) const {
  if (g.wanted(0))
    g.set_input_gradient(0, g.apply("gather_gradient", a, {g.input(1), g.output_gradient(), g.input(0)}));
}

void Gather::reference(const OpCall& call) const {
  const Operand& ids = call.inputs[1];
  GatherLoops l = gather_loops(int_attribute(call.attributes, 0), call.inputs[0]);
  dispatch_reference(call, [&]<class T>() {
    T* y = call.outputs[0].as<T>();
    for (std::int64_t o = 0; o < l.outer; ++o)
      for (std::int64_t i = 0; i < ids.elements(); ++i) {
        std::int64_t row = l.row(ids.as<std::int32_t>()[i]);
        for (std::int64_t k = 0; k < l.inner; ++k)
          *y++ = row < 0 ? T(0) : call.inputs[0].as<T>()[(o * l.n + row) * l.inner + k];
      }
  });
}

std::vector<Example> Gather::examples() const {
  return {{{std::int64_t{0}}, {{{6, 4}, DType::f32}, {{4}, DType::i32}}, 6},
          {{std::int64_t{1}}, {{{2, 6, 3}, DType::f32}, {{2, 2}, DType::i32}}, 6},
          {{std::int64_t{1}}, {{{4, 6}, DType::f32}, {{}, DType::i32}}, 6}};
}
std::optional<std::int64_t> Gather::index_bound(const Attributes& a, std::span<const Shape> in, std::size_t k) const {
  return k == 1 ? std::optional(in[0].dims[static_cast<std::size_t>(int_attribute(a, 0))]) : std::nullopt;
}
std::optional<std::int64_t> Gather::elements_read(std::span<const Shape>, const Shape& y, std::size_t k) const {
  return k == 0 ? std::optional(y.elements()) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(gather, Gather)

std::vector<AttributeSpec> GatherGradient::attributes() const { return kDim; }

Result<AxisTable> GatherGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), a, in[2], in[0], AxisRole::reduction, AxisRole::parallel));
  Shape expected = operand_shape(w.table, w.y);
  if (in[1] != expected)
    return fail("gather_gradient: operand 1 is {}, expected {}", to_string(in[1]), to_string(expected));
  w.table.outputs = {w.x};
  w.x.shape_only = true;
  w.y.linear = true;
  w.table.linearity = Linearity::multilinear;
  w.table.inputs = {w.indices, w.y, w.x};
  return w.table;
}

void GatherGradient::reference(const OpCall& call) const {
  const Operand &ids = call.inputs[0], &dx = call.outputs[0];
  GatherLoops l = gather_loops(int_attribute(call.attributes, 0), dx);
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(dx.as<T>(), dx.elements(), T(0));
    const T* dy = call.inputs[1].as<T>();
    for (std::int64_t o = 0; o < l.outer; ++o)
      for (std::int64_t i = 0; i < ids.elements(); ++i, dy += l.inner) {
        std::int64_t row = l.row(ids.as<std::int32_t>()[i]);
        for (std::int64_t k = 0; row >= 0 && k < l.inner; ++k) dx.as<T>()[(o * l.n + row) * l.inner + k] += dy[k];
      }
  });
}

std::vector<Example> GatherGradient::examples() const {
  return {{{std::int64_t{0}}, {{{4}, DType::i32}, {{4, 4}, DType::f32}, {{6, 4}, DType::f32}}, 6},
          {{std::int64_t{1}}, {{{2, 2}, DType::i32}, {{2, 2, 2, 3}, DType::f32}, {{2, 6, 3}, DType::f32}}, 6}};
}
std::optional<std::int64_t> GatherGradient::index_bound(const Attributes& a, std::span<const Shape> in,
                                                        std::size_t k) const {
  return k == 0 ? std::optional(in[2].dims[static_cast<std::size_t>(int_attribute(a, 0))]) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(gather_gradient, GatherGradient)

}  // namespace unity
