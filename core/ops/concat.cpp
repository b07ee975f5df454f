#include "core/ops/concat.h"

#include <cstring>

#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> Concat::attributes() const {
  return {{"dim", AttributeKind::integer, true, {}}, {"groups", AttributeKind::integer, false, std::int64_t{1}}};
}

Result<AxisTable> Concat::axes(const Attributes& a, std::span<const Shape> in) const {
  std::int64_t dim = int_attribute(a, 0), groups = int_attribute(a, 1);
  auto rank = static_cast<std::int64_t>(in[0].dims.size());
  if (dim < 0 || dim >= rank)
    return fail("concat: dimension is {}, expected 0 to {} for {}", dim, rank - 1, to_string(in[0]));
  if (groups < 1) return fail("concat: groups is {}, expected at least 1", groups);
  auto d = static_cast<std::size_t>(dim);
  AxisTable t;
  OperandAxes common;
  for (std::size_t i = 0; i < in[0].dims.size(); ++i)
    common.dims.push_back(i == d ? walk({})
                                 : walk({add_axis(t, fmt::format("d{}", i), in[0].dims[i], AxisRole::parallel)}));
  if (groups > 1) common.dims[d].axes.push_back(add_axis(t, "group", groups, AxisRole::parallel));
  common.dtype = in[0].dtype;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    Dims expected = in[0].dims;
    if (in[i].dims.size() == expected.size()) expected[d] = in[i].dims[d];
    if (in[i].dims != expected || in[i].dtype != in[0].dtype)
      return fail("concat: operand {} is {}, expected {} but for dimension {}", i, to_string(in[i]), to_string(in[0]),
                  dim);
    if (expected[d] % groups != 0)
      return fail("concat: dimension {} of operand {} ({}) is {}, expected a multiple of {} groups", dim, i,
                  to_string(in[i]), expected[d], groups);
    OperandAxes operand = common;
    operand.dims[d].axes.push_back(add_axis(t, fmt::format("x{}", i), expected[d] / groups, AxisRole::whole));
    operand.linear = true;
    t.inputs.push_back(operand);
    total += expected[d] / groups;
  }
  common.dims[d].axes.push_back(add_axis(t, "all", total, AxisRole::whole));
  t.outputs = {common};
  t.linearity = Linearity::joint;
  t.flops_per_point = 0;
  return t;
}

void Concat::gradient(const Attributes& a, GradientBuilder& g) const {
  Integers sizes;
  auto dim = static_cast<std::size_t>(int_attribute(a, 0));
  std::int64_t count = 0;
  for (std::int64_t total = 0; total < g.shape(g.output()).dims[dim]; ++count)
    total += sizes.emplace_back(g.shape(g.input(static_cast<int>(count))).dims[dim]);
  GradientValue parts = g.apply("split", {a[0], sizes, a[1]}, {g.output_gradient()});
  for (int i = 0; i < static_cast<int>(count); ++i)
    if (g.wanted(i)) g.set_input_gradient(i, g.result(parts, i));
}

ConcatLayout concat_layout(std::int64_t dim, std::int64_t groups, std::span<const Operand> pieces) {
  ConcatLayout layout;
  auto d = static_cast<std::size_t>(dim);
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < pieces[0].extent.size(); ++i) {
    if (i < d) layout.outer *= pieces[0].extent[i];
    if (i > d) inner *= pieces[0].extent[i];
  }
  layout.outer *= pieces[0].extent[d] / (pieces[0].global[d] / groups);
  for (const Operand& piece : pieces) layout.lengths.push_back(piece.global[d] / groups * inner);
  return layout;
}

void Concat::reference(const OpCall& call) const {
  ConcatLayout layout =
      concat_layout(int_attribute(call.attributes, 0), int_attribute(call.attributes, 1), call.inputs);
  std::int64_t size = size_of(call.outputs[0].dtype);
  char* out = call.outputs[0].as<char>();
  for (std::int64_t o = 0; o < layout.outer; ++o)
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      std::int64_t bytes = layout.lengths[i] * size;
      std::memcpy(out, call.inputs[i].as<char>() + o * bytes, static_cast<std::size_t>(bytes));
      out += bytes;
    }
}

std::vector<Example> Concat::examples() const {
  auto attributes = [](std::int64_t dim, std::int64_t groups) { return Attributes{dim, groups}; };
  return {{attributes(1, 1), {{{4, 6}, DType::f32}, {{4, 4}, DType::f32}}},
          {attributes(0, 1), {{{2, 6}, DType::f32}, {{3, 6}, DType::f32}, {{1, 6}, DType::f32}}},
          {attributes(1, 2), {{{2, 4, 3}, DType::f32}, {{2, 8, 3}, DType::f32}}}};
}

std::string_view Concat::axioms() const {
  return R"(
axiom concat_of_split
  let (y1, y2) = split(a, s, x, groups=g)
  concat(a, y1, y2, groups=g) = x
axiom concat_of_split_in_three
  let (y1, y2, y3) = split(a, s, x, groups=g)
  concat(a, y1, y2, y3, groups=g) = x
axiom concat_of_split_in_four
  let (y1, y2, y3, y4) = split(a, s, x, groups=g)
  concat(a, y1, y2, y3, y4, groups=g) = x
axiom concat_associative
  concat(a, concat(a, x, y), z) = concat(a, x, concat(a, y, z))
axiom concat_of_three
  concat(a, x, y, z) = concat(a, concat(a, x, y), z)
axiom concat_of_four
  concat(a, x, y, z, u) = concat(a, concat(a, x, y, z), u)
)";
}
UNITY_DEFINE_OPERATOR(concat, Concat)

}  // namespace unity
