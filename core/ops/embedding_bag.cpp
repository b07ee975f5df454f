#include "core/ops/embedding_bag.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/embedding.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kMode = {{"mode", AttributeKind::text, false, std::string("sum")}};

double factor_of(const Attributes& a, const Dims& ids) {
  return text_attribute(a, 0) == "mean" ? 1.0 / static_cast<double>(ids[1]) : 1.0;
}

struct Walks {
  AxisTable table;
  OperandAxes ids, rows, y;
};
Result<Walks> walks_of(std::string_view op, const Attributes& a, const Shape& ids, const Shape& table, AxisRole b,
                       AxisRole v) {
  if (text_attribute(a, 0) != "sum" && text_attribute(a, 0) != "mean")
    return fail("{}: mode is '{}', expected sum or mean", op, text_attribute(a, 0));
  if (ids.dtype != DType::i32 || ids.dims.size() != 2)
    return fail("{}: ids are {}, expected i32 of 2 dimensions: [b, l]", op, to_string(ids));
  if (table.dims.size() != 2 || table.dtype == DType::i32)
    return fail("{}: table is {}, expected real numbers of 2 dimensions: [v, h]", op, to_string(table));
  Walks w;
  int bag = add_axis(w.table, "b", ids.dims[0], b), h = add_axis(w.table, "h", table.dims[1], AxisRole::parallel);
  int l = add_axis(w.table, "l", ids.dims[1], AxisRole::reduction), row = add_axis(w.table, "v", table.dims[0], v);
  w.ids = walks(bag, l), w.rows = walks(row, h), w.y = walks(bag, h);
  w.ids.dtype = DType::i32;
  w.rows.dtype = w.y.dtype = table.dtype;
  w.table.flop_axes = {bag, h, l};
  w.table.linearity = Linearity::multilinear;
  return w;
}

}  // namespace

double embedding_bag_factor(const Attributes& a, const Operand& ids) { return factor_of(a, ids.global); }

std::vector<AttributeSpec> EmbeddingBag::attributes() const { return kMode; }

Result<AxisTable> EmbeddingBag::axes(const Attributes& a, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), a, in[0], in[1], AxisRole::parallel, AxisRole::reduction));
  w.rows.linear = true;
  w.table.inputs = {w.ids, w.rows};
  w.table.outputs = {w.y};
  // The rows of a table are looked up, not walked: a shard of it does its share of the look-ups.
  w.table.flops_per_point = 0;
  return w.table;
}

void EmbeddingBag::gradient(const Attributes& a, GradientBuilder& g) const {
  if (g.wanted(1))
    g.set_input_gradient(1, g.apply("embedding_bag_gradient", a, {g.input(0), g.output_gradient(), g.input(1)}));
}

void EmbeddingBag::reference(const OpCall& call) const {
  const Operand &ids = call.inputs[0], &table = call.inputs[1], &y = call.outputs[0];
  std::int64_t l = ids.extent[1], h = table.extent[1];
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(y.as<T>(), y.elements(), T(0));
    T factor = constant<T>(embedding_bag_factor(call.attributes, ids));
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      std::int64_t row = embedding_row(table, ids.as<std::int32_t>()[i]);
      for (std::int64_t j = 0; row >= 0 && j < h; ++j) y.as<T>()[i / l * h + j] += table.as<T>()[row * h + j] * factor;
    }
  });
}

std::vector<Example> EmbeddingBag::examples() const {
  return {{{std::string("sum")}, {{{4, 2}, DType::i32}, {{6, 4}, DType::f32}}, 6},
          {{std::string("mean")}, {{{4, 3}, DType::i32}, {{12, 2}, DType::f32}}, 12}};
}
std::optional<std::int64_t> EmbeddingBag::index_bound(const Attributes&, std::span<const Shape> in,
                                                      std::size_t k) const {
  return k == 0 ? std::optional(in[1].dims[0]) : std::nullopt;
}
std::optional<std::int64_t> EmbeddingBag::elements_read(std::span<const Shape> in, const Shape&, std::size_t k) const {
  return k == 1 ? std::optional(in[0].elements() * in[1].dims[1]) : std::nullopt;
}

std::string_view EmbeddingBag::axioms() const {
  return R"(
axiom embedding_bag_of_first_rows
  embedding_bag(i, concat(0, t, u), mode=m) <= embedding_bag(i, t, mode=m)
axiom embedding_bag_definition
  embedding_bag(ids, table) = reduce_sum([1], embedding(ids, table))
  where rank(ids) == 2
axiom embedding_bag_mean_definition
  embedding_bag(ids, table, mode="mean") = reduce_mean([1], embedding(ids, table))
  where rank(ids) == 2
)";
}
UNITY_DEFINE_OPERATOR(embedding_bag, EmbeddingBag)

std::vector<AttributeSpec> EmbeddingBagGradient::attributes() const { return kMode; }

Result<AxisTable> EmbeddingBagGradient::axes(const Attributes& a, std::span<const Shape> in) const {
  Walks w = UNITY_TRY(walks_of(name(), a, in[0], in[2], AxisRole::reduction, AxisRole::parallel));
  Shape expected = operand_shape(w.table, w.y);
  if (in[1] != expected)
    return fail("embedding_bag_gradient: operand 1 is {}, expected {}", to_string(in[1]), to_string(expected));
  w.table.outputs = {w.rows};
  w.rows.shape_only = true;
  w.y.linear = true;
  w.table.inputs = {w.ids, w.y, w.rows};
  w.table.flops_per_point = 0;
  return w.table;
}

void EmbeddingBagGradient::reference(const OpCall& call) const {
  const Operand &ids = call.inputs[0], &dy = call.inputs[1], &out = call.outputs[0];
  std::int64_t l = ids.extent[1], h = out.extent[1];
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(out.as<T>(), out.elements(), T(0));
    T factor = constant<T>(embedding_bag_factor(call.attributes, ids));
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      std::int64_t row = embedding_row(out, ids.as<std::int32_t>()[i]);
      for (std::int64_t j = 0; row >= 0 && j < h; ++j) out.as<T>()[row * h + j] += dy.as<T>()[i / l * h + j] * factor;
    }
  });
}

std::optional<double> EmbeddingBagGradient::row_factor(const Attributes& a, const Dims& ids) const {
  return factor_of(a, ids);
}

std::vector<Example> EmbeddingBagGradient::examples() const {
  return {{{std::string("sum")}, {{{4, 2}, DType::i32}, {{4, 4}, DType::f32}, {{6, 4}, DType::f32}}, 6},
          {{std::string("mean")}, {{{4, 3}, DType::i32}, {{4, 2}, DType::f32}, {{12, 2}, DType::f32}}, 12}};
}
std::optional<std::int64_t> EmbeddingBagGradient::index_bound(const Attributes&, std::span<const Shape> in,
                                                              std::size_t k) const {
  return k == 0 ? std::optional(in[2].dims[0]) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(embedding_bag_gradient, EmbeddingBagGradient)

}  // namespace unity
