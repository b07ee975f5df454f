#include "core/ops/slice.h"

#include <algorithm>
#include <cstring>

#include "core/ops/define.h"

namespace unity {
namespace {

// One axis for each dimension whose sizes are equal; two, both whole, where they differ.
AxisTable table_of(const Shape& x, const Dims& result, bool linear) {
  AxisTable t;
  OperandAxes in, out;
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    bool same = x.dims[d] == result[d];
    int a = add_axis(t, fmt::format("d{}", d), x.dims[d], same ? AxisRole::parallel : AxisRole::whole);
    in.dims.push_back(walk({a}));
    out.dims.push_back(same ? walk({a}) : walk({add_axis(t, fmt::format("e{}", d), result[d], AxisRole::whole)}));
  }
  in.dtype = out.dtype = x.dtype;
  in.linear = linear;
  t.linearity = linear ? Linearity::multilinear : Linearity::none;
  t.inputs = {in};
  t.outputs = {out};
  t.flops_per_point = 0;
  return t;
}

Result<void> expect_lengths(std::string_view op, const Attributes& a, const Shape& x) {
  for (std::size_t i : {0, 1})
    if (ints_attribute(a, i).size() != x.dims.size())
      return fail("{}: attribute {} is {}, expected one number for each dimension of {}", op, i, to_string(a[i]),
                  to_string(x));
  return {};
}

// Copies elements of `size` bytes between a dense block and `box` of a dense block of extent `large`.
void copy_box(const Dims& large, const Box& box, std::int64_t size, char* large_data, char* small_data,
              bool into_large) {
  for_each_index(box.extent, [&](const Dims& index, std::int64_t i) {
    Dims at = index;
    for (std::size_t d = 0; d < at.size(); ++d) at[d] += box.offset[d];
    char *l = large_data + position(large, at) * size, *s = small_data + i * size;
    std::memcpy(into_large ? l : s, into_large ? s : l, static_cast<std::size_t>(size));
  });
}

}  // namespace

Box sliced_box(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Box box{y.offset, y.extent};
  for (std::size_t d = 0; d < box.rank(); ++d) box.offset[d] += ints_attribute(call.attributes, 0)[d] - x.offset[d];
  return box;
}
Box padded_box(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Box box{x.offset, x.extent};
  for (std::size_t d = 0; d < box.rank(); ++d) box.offset[d] += ints_attribute(call.attributes, 0)[d] - y.offset[d];
  return box;
}

std::vector<AttributeSpec> Slice::attributes() const {
  return {{"starts", AttributeKind::integers, true, {}}, {"sizes", AttributeKind::integers, true, {}}};
}

Result<AxisTable> Slice::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_lengths(name(), a, in[0]));
  const Dims &starts = ints_attribute(a, 0), &sizes = ints_attribute(a, 1);
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (starts[d] < 0 || sizes[d] < 1 || starts[d] + sizes[d] > in[0].dims[d])
      return fail("slice: [{}, {}) of dimension {}, expected a part of its {} elements", starts[d],
                  starts[d] + sizes[d], d, in[0].dims[d]);
  return table_of(in[0], sizes, in[0].dtype != DType::i32);
}

void Slice::gradient(const Attributes& a, GradientBuilder& g) const {
  if (!g.wanted(0)) return;
  Dims after = g.shape(g.input(0)).dims;
  for (std::size_t d = 0; d < after.size(); ++d) after[d] -= ints_attribute(a, 0)[d] + ints_attribute(a, 1)[d];
  g.set_input_gradient(0, g.apply("pad", {a[0], after, 0.0}, {g.output_gradient()}));
}

void Slice::reference(const OpCall& call) const {
  copy_box(call.inputs[0].extent, sliced_box(call), size_of(call.outputs[0].dtype), call.inputs[0].as<char>(),
           call.outputs[0].as<char>(), false);
}

std::vector<Example> Slice::examples() const {
  return {{{Dims{0, 1}, Dims{4, 3}}, {{{4, 6}, DType::f32}}},
          {{Dims{0, 2, 0}, Dims{2, 1, 6}}, {{{2, 4, 6}, DType::f32}}},
          {{Dims{1, 0}, Dims{2, 4}}, {{{3, 4}, DType::i32}}, 9}};
}
std::optional<std::int64_t> Slice::elements_read(std::span<const Shape>, const Shape& y, std::size_t) const {
  return y.elements();
}
std::string_view Slice::axioms() const {
  return R"(
axiom slice_of_pad_1
  slice(b, s, pad(b, a, x, value=v)) = x
  where rank(x) == 1, s == [dim(x, 0)]
axiom slice_of_pad_2
  slice(b, s, pad(b, a, x, value=v)) = x
  where rank(x) == 2, s == [dim(x, 0), dim(x, 1)]
axiom slice_of_pad_3
  slice(b, s, pad(b, a, x, value=v)) = x
  where rank(x) == 3, s == [dim(x, 0), dim(x, 1), dim(x, 2)]
axiom slice_of_pad_4
  slice(b, s, pad(b, a, x, value=v)) = x
  where rank(x) == 4, s == [dim(x, 0), dim(x, 1), dim(x, 2), dim(x, 3)]
)";
}
UNITY_DEFINE_OPERATOR(slice, Slice)

std::vector<AttributeSpec> Pad::attributes() const {
  return {{"before", AttributeKind::integers, true, {}},
          {"after", AttributeKind::integers, true, {}},
          {"value", AttributeKind::real, false, 0.0}};
}

Result<AxisTable> Pad::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  UNITY_TRY(expect_lengths(name(), a, in[0]));
  Dims result = in[0].dims;
  for (std::size_t d = 0; d < result.size(); ++d) {
    std::int64_t before = ints_attribute(a, 0)[d], after = ints_attribute(a, 1)[d];
    if (before < 0 || after < 0)
      return fail("pad: {} before and {} after dimension {}, expected at least 0", before, after, d);
    result[d] += before + after;
  }
  return table_of(in[0], result, real_attribute(a, 2) == 0);
}

void Pad::gradient(const Attributes& a, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("slice", {a[0], g.shape(g.input(0)).dims}, {g.output_gradient()}));
}

void Pad::reference(const OpCall& call) const {
  const Operand& y = call.outputs[0];
  dispatch_reference(
      call, [&]<class T>() { std::fill_n(y.as<T>(), y.elements(), constant<T>(real_attribute(call.attributes, 2))); });
  copy_box(y.extent, padded_box(call), size_of(y.dtype), y.as<char>(), call.inputs[0].as<char>(), true);
}

std::vector<Example> Pad::examples() const {
  return {{{Dims{0, 1}, Dims{0, 2}, 0.0}, {{{4, 3}, DType::f32}}},
          {{Dims{1, 0, 0}, Dims{0, 0, 1}, 0.5}, {{{2, 4, 3}, DType::f32}}}};
}
std::string_view Pad::axioms() const {
  return R"(
axiom pad_of_sum
  pad([0, 0, 1, 1], [0, 0, 1, 1], add(x, y)) = add(pad([0, 0, 1, 1], [0, 0, 1, 1], x), pad([0, 0, 1, 1], [0, 0, 1, 1], y))
  where rank(x) == 4, rank(y) == 4, dim(x, 2) == dim(y, 2), dim(x, 3) == dim(y, 3)
)";
}
UNITY_DEFINE_OPERATOR(pad, Pad)

}  // namespace unity
