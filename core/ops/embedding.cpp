#include "core/ops/embedding.h"

#include "core/ops/define.h"

namespace unity {

std::int64_t embedding_row(const Operand& table, std::int32_t id) {
  if (id < 0 || id >= table.global[0])
    throw_input_error("embedding: index is {}, expected 0 to {}", id, table.global[0] - 1);
  std::int64_t row = id - table.offset[0];
  return row >= 0 && row < table.extent[0] ? row : -1;
}

Result<AxisTable> Embedding::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_indices(name(), in, 0));
  if (in[1].dims.size() != 2 || in[1].dtype == DType::i32)
    return fail("embedding: operand 1 is {}, expected a table of real numbers of 2 dimensions", to_string(in[1]));
  AxisTable t;
  OperandAxes ids;
  walk_dims(t, ids, in[0].dims, 0, in[0].dims.size(), AxisRole::parallel);
  OperandAxes out = ids;
  ids.dtype = DType::i32;
  int h = add_axis(t, "h", in[1].dims[1], AxisRole::parallel), v = add_axis(t, "v", in[1].dims[0], AxisRole::reduction);
  out.dims.push_back(walk({h}));
  OperandAxes table = walks(v, h);
  table.linear = true;
  table.dtype = out.dtype = in[1].dtype;
  t.inputs = {ids, table};
  t.outputs = {out};
  t.linearity = Linearity::multilinear;
  t.flops_per_point = 0;
  return t;
}

void Embedding::gradient(const Attributes&, GradientBuilder& g) const {
  if (g.wanted(1))
    g.set_input_gradient(1, g.apply("embedding_gradient", {}, {g.input(0), g.output_gradient(), g.input(1)}));
}

void Embedding::reference(const OpCall& call) const {
  const Operand &ids = call.inputs[0], &table = call.inputs[1];
  std::int64_t h = table.extent[1];
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      std::int64_t row = embedding_row(table, ids.as<std::int32_t>()[i]);
      for (std::int64_t j = 0; j < h; ++j)
        call.outputs[0].as<T>()[i * h + j] = row < 0 ? T(0) : table.as<T>()[row * h + j];
    }
  });
}

std::vector<Example> Embedding::examples() const {
  return {{{}, {{{6}, DType::i32}, {{12, 4}, DType::f32}}, 12}, {{}, {{{2, 4}, DType::i32}, {{6, 4}, DType::f32}}, 6}};
}
std::optional<std::int64_t> Embedding::index_bound(const Attributes&, std::span<const Shape> in, std::size_t k) const {
  return k == 0 ? std::optional(in[1].dims[0]) : std::nullopt;
}
std::optional<std::int64_t> Embedding::elements_read(std::span<const Shape>, const Shape& y, std::size_t k) const {
  return k == 1 ? std::optional(y.elements()) : std::nullopt;
}
std::string_view Embedding::axioms() const {
  return R"(
axiom embedding_of_first_rows
  embedding(i, concat(0, t, u)) <= embedding(i, t)
)";
}
UNITY_DEFINE_OPERATOR(embedding, Embedding)

Result<AxisTable> EmbeddingGradient::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_indices(name(), in, 0));
  UNITY_TRY(expect_real(name(), in.subspan(1)));
  if (in[2].dims.size() != 2)
    return fail("embedding_gradient: operand 2 is {}, expected a table of 2 dimensions", to_string(in[2]));
  Shape expected{in[0].dims, in[1].dtype};
  expected.dims.push_back(in[2].dims[1]);
  if (in[1] != expected)
    return fail("embedding_gradient: operand 1 is {}, expected {}", to_string(in[1]), to_string(expected));
  AxisTable t;
  int v = add_axis(t, "v", in[2].dims[0], AxisRole::parallel), h = add_axis(t, "h", in[2].dims[1], AxisRole::parallel);
  OperandAxes ids;
  walk_dims(t, ids, in[0].dims, 0, in[0].dims.size(), AxisRole::reduction);
  OperandAxes dy = ids;
  ids.dtype = DType::i32;
  dy.dims.push_back(walk({h}));
  dy.linear = true;
  OperandAxes table = walks(v, h);
  dy.dtype = table.dtype = in[1].dtype;
  t.outputs = {table};
  table.shape_only = true;
  t.inputs = {ids, dy, table};
  t.linearity = Linearity::multilinear;
  t.flops_per_point = 0;
  return t;
}

void EmbeddingGradient::reference(const OpCall& call) const {
  const Operand &ids = call.inputs[0], &out = call.outputs[0];
  std::int64_t h = out.extent[1];
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(out.as<T>(), out.elements(), T(0));
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      std::int64_t row = embedding_row(out, ids.as<std::int32_t>()[i]);
      for (std::int64_t j = 0; row >= 0 && j < h; ++j) out.as<T>()[row * h + j] += call.inputs[1].as<T>()[i * h + j];
    }
  });
}

std::vector<Example> EmbeddingGradient::examples() const {
  return {{{}, {{{6}, DType::i32}, {{6, 4}, DType::f32}, {{12, 4}, DType::f32}}, 12},
          {{}, {{{2, 4}, DType::i32}, {{2, 4, 4}, DType::f32}, {{6, 4}, DType::f32}}, 6}};
}
std::optional<std::int64_t> EmbeddingGradient::index_bound(const Attributes&, std::span<const Shape> in,
                                                           std::size_t k) const {
  return k == 0 ? std::optional(in[2].dims[0]) : std::nullopt;
}
UNITY_DEFINE_OPERATOR(embedding_gradient, EmbeddingGradient)

}  // namespace unity
