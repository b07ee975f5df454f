#include "core/ops/reduce_sum.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {
namespace {

const std::vector<AttributeSpec> kDims = {{"dims", AttributeKind::integers, true, {}}};

Result<void> expect_dims(std::string_view op, const Attributes& a, const Shape& shape) {
  std::int64_t least = 0;
  for (std::int64_t d : ints_attribute(a, 0)) {
    if (d < least || d >= static_cast<std::int64_t>(shape.dims.size()))
      return fail("{}: dims are {}, expected increasing dimensions of {}", op, to_string(a[0]), to_string(shape));
    least = d + 1;
  }
  return {};
}

bool reduces(const Attributes& a, std::size_t dim) {
  const auto& dims = ints_attribute(a, 0);
  return std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(dim)) != dims.end();
}

// Adds to an operand every dimension of `full` that is not reduced.
OperandAxes kept(const Attributes& a, const OperandAxes& full) {
  OperandAxes operand;
  for (std::size_t i = 0; i < full.dims.size(); ++i)
    if (!reduces(a, i)) operand.dims.push_back(full.dims[i]);
  operand.dtype = full.dtype;
  return operand;
}

template <class T>
void sum(const OpCall& call, T factor) {
  T* y = call.outputs[0].as<T>();
  std::fill_n(y, call.outputs[0].elements(), T(0));
  for_each_index(call.inputs[0].extent, [&](const Dims& index, std::int64_t i) {
    y[kept_position(call.attributes, call.inputs[0].extent, index)] += call.inputs[0].as<T>()[i];
  });
  for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) y[i] *= factor;
}

}  // namespace

std::int64_t kept_position(const Attributes& a, const Dims& full, const Dims& index) {
  std::int64_t p = 0;
  for (std::size_t i = 0; i < full.size(); ++i)
    if (!reduces(a, i)) p = p * full[i] + index[i];
  return p;
}

std::int64_t reduced_elements(const Attributes& a, const Dims& sizes) {
  std::int64_t n = 1;
  for (std::int64_t d : ints_attribute(a, 0)) n *= sizes[static_cast<std::size_t>(d)];
  return n;
}

std::vector<AttributeSpec> Reduction::attributes() const { return kDims; }

Result<AxisTable> Reduction::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_dims(name(), a, in[0]));
  AxisTable t;
  OperandAxes x;
  walk_dims(t, x, in[0].dims, 0, in[0].dims.size(), AxisRole::parallel);
  for (std::size_t i = 0; i < t.axes.size(); ++i)
    if (reduces(a, i)) t.axes[i].role = AxisRole::reduction;
  x.dtype = in[0].dtype;
  t.outputs = {kept(a, x)};
  x.linear = true;
  t.inputs = {x};
  t.linearity = Linearity::multilinear;
  return t;
}

std::vector<Example> Reduction::examples() const {
  return {{{Dims{0}}, {{{4, 6}, DType::f32}}},
          {{Dims{0, 2}}, {{{2, 4, 6}, DType::f32}}},
          {{Dims{0, 1}}, {{{4, 6}, DType::f32}}}};
}

void ReduceSum::gradient(const Attributes& a, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("broadcast_like", a, {g.output_gradient(), g.input(0)}));
}
void ReduceSum::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() { sum(call, T(1)); });
}
std::string_view ReduceSum::axioms() const {
  return R"(
axiom sum_of_transpose_0
  reduce_sum([0], transpose([1, 0], x)) = reduce_sum([1], x)
  where rank(x) == 2
axiom sum_of_transpose_1
  reduce_sum([1], transpose([1, 0], x)) = reduce_sum([0], x)
  where rank(x) == 2
axiom sum_of_transpose_01
  reduce_sum([0, 1], transpose([1, 0], x)) = reduce_sum([0, 1], x)
  where rank(x) == 2
axiom sum_of_matrix_and_row
  reduce_sum([1], add(x, y)) = add(reduce_sum([1], x), reduce_sum([0], y))
  where rank(x) == 2, rank(y) == 1, dim(y, 0) == dim(x, 1)
axiom sum_of_sum_00
  reduce_sum([0], reduce_sum([0], x)) = reduce_sum([0, 1], x)
axiom sum_of_sum_01
  reduce_sum([0], reduce_sum([1], x)) = reduce_sum([0, 1], x)
)";
}
UNITY_DEFINE_OPERATOR(reduce_sum, ReduceSum)

void ReduceMean::gradient(const Attributes& a, GradientBuilder& g) const {
  double n = static_cast<double>(reduced_elements(a, g.shape(g.input(0)).dims));
  g.set_input_gradient(0, g.apply("broadcast_like", a, {g.apply("scale", {1 / n}, {g.output_gradient()}), g.input(0)}));
}
void ReduceMean::reference(const OpCall& call) const {
  double n = static_cast<double>(reduced_elements(call.attributes, call.inputs[0].global));
  dispatch_reference(call, [&]<class T>() { sum(call, constant<T>(1 / n)); });
}
std::string_view ReduceMean::axioms() const {
  return R"(
axiom mean_of_transpose_0
  reduce_mean([0], transpose([1, 0], x)) = reduce_mean([1], x)
  where rank(x) == 2
axiom mean_of_transpose_1
  reduce_mean([1], transpose([1, 0], x)) = reduce_mean([0], x)
  where rank(x) == 2
axiom mean_of_transpose_01
  reduce_mean([0, 1], transpose([1, 0], x)) = reduce_mean([0, 1], x)
  where rank(x) == 2
axiom mean_of_mean
  reduce_mean([0], reduce_mean([0], x)) = reduce_mean([0], reduce_mean([1], x))
axiom mean_of_sum_0
  reduce_mean([0], reduce_sum([1], x)) = reduce_sum([0], reduce_mean([0], x))
axiom mean_of_sum_1
  reduce_mean([0], reduce_sum([0], x)) = reduce_sum([0], reduce_mean([1], x))
axiom mean_of_joined_0
  reduce_mean([0], concat(0, x, y, groups=g)) = reduce_mean([0], concat(0, y, x, groups=g))
axiom mean_of_joined_1
  reduce_mean([1], concat(1, x, y, groups=g)) = reduce_mean([1], concat(1, y, x, groups=g))
)";
}
UNITY_DEFINE_OPERATOR(reduce_mean, ReduceMean)

std::vector<AttributeSpec> BroadcastLike::attributes() const { return kDims; }

Result<AxisTable> BroadcastLike::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_dims(name(), a, in[1]));
  AxisTable t;
  OperandAxes like;
  walk_dims(t, like, in[1].dims, 0, in[1].dims.size(), AxisRole::parallel);
  like.dtype = in[1].dtype;
  OperandAxes x = kept(a, like), y = like;
  Shape expected = operand_shape(t, x);
  if (in[0].dims != expected.dims)
    return fail("broadcast_like: operand 0 is {}, expected {}, operand 1 without the dimensions {}", to_string(in[0]),
                to_string(expected), to_string(a[0]));
  x.dtype = y.dtype = in[0].dtype;
  x.linear = true;
  like.shape_only = true;
  t.inputs = {x, like};
  t.outputs = {y};
  t.linearity = Linearity::multilinear;
  t.flops_per_point = 0;
  return t;
}

void BroadcastLike::gradient(const Attributes& a, GradientBuilder& g) const {
  if (g.wanted(0)) g.set_input_gradient(0, g.apply("reduce_sum", a, {g.output_gradient()}));
}

void BroadcastLike::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for_each_index(call.outputs[0].extent, [&](const Dims& index, std::int64_t i) {
      call.outputs[0].as<T>()[i] =
          call.inputs[0].as<T>()[kept_position(call.attributes, call.outputs[0].extent, index)];
    });
  });
}

std::vector<Example> BroadcastLike::examples() const {
  return {{{Dims{0}}, {{{6}, DType::f32}, {{4, 6}, DType::f32}}},
          {{Dims{0, 2}}, {{{4}, DType::f32}, {{2, 4, 6}, DType::f32}}},
          {{Dims{0, 1}}, {{{}, DType::f32}, {{4, 6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(broadcast_like, BroadcastLike)

}  // namespace unity
