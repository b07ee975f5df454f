#include "core/ops/split.h"

#include <cstring>
#include <numeric>

#include "core/ops/concat.h"
#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> Split::attributes() const {
  return {{"dim", AttributeKind::integer, true, {}},
          {"sizes", AttributeKind::integers, true, {}},
          {"groups", AttributeKind::integer, false, std::int64_t{1}}};
}

Result<AxisTable> Split::axes(const Attributes& a, std::span<const Shape> in) const {
  std::int64_t dim = int_attribute(a, 0), groups = int_attribute(a, 2);
  const auto& sizes = ints_attribute(a, 1);
  auto rank = static_cast<std::int64_t>(in[0].dims.size());
  if (dim < 0 || dim >= rank)
    return fail("split: dimension is {}, expected 0 to {} for {}", dim, rank - 1, to_string(in[0]));
  if (groups < 1) return fail("split: groups is {}, expected at least 1", groups);
  auto d = static_cast<std::size_t>(dim);
  std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (sizes.empty() || total != in[0].dims[d])
    return fail("split: sizes are {}, expected a sum of {}, dimension {} of {}", to_string(a[1]), in[0].dims[d], dim,
                to_string(in[0]));
  AxisTable t;
  OperandAxes common;
  for (std::size_t i = 0; i < in[0].dims.size(); ++i)
    common.dims.push_back(i == d ? walk({})
                                 : walk({add_axis(t, fmt::format("d{}", i), in[0].dims[i], AxisRole::parallel)}));
  if (groups > 1) common.dims[d].axes.push_back(add_axis(t, "group", groups, AxisRole::parallel));
  common.dtype = in[0].dtype;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1 || sizes[i] % groups != 0)
      return fail("split: size {} is {}, expected a positive multiple of {} groups", i, sizes[i], groups);
    OperandAxes operand = common;
    operand.dims[d].axes.push_back(add_axis(t, fmt::format("y{}", i), sizes[i] / groups, AxisRole::whole));
    t.outputs.push_back(operand);
  }
  common.dims[d].axes.push_back(add_axis(t, "all", total / groups, AxisRole::whole));
  common.linear = true;
  t.inputs = {common};
  t.linearity = Linearity::multilinear;
  t.flops_per_point = 0;
  return t;
}

void Split::gradient(const Attributes& a, GradientBuilder& g) const {
  std::vector<GradientValue> parts;
  for (std::size_t i = 0; i < ints_attribute(a, 1).size(); ++i) parts.push_back(g.output_gradient(static_cast<int>(i)));
  g.set_input_gradient(0, g.apply("concat", {a[0], a[2]}, parts));
}

void Split::reference(const OpCall& call) const {
  ConcatLayout layout =
      concat_layout(int_attribute(call.attributes, 0), int_attribute(call.attributes, 2), call.outputs);
  std::int64_t size = size_of(call.outputs[0].dtype);
  const char* in = call.inputs[0].as<char>();
  for (std::int64_t o = 0; o < layout.outer; ++o)
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      std::int64_t bytes = layout.lengths[i] * size;
      std::memcpy(call.outputs[i].as<char>() + o * bytes, in, static_cast<std::size_t>(bytes));
      in += bytes;
    }
}

std::vector<Example> Split::examples() const {
  using Sizes = Integers;
  auto attributes = [](std::int64_t dim, Sizes sizes, std::int64_t groups) { return Attributes{dim, sizes, groups}; };
  return {{attributes(1, {6, 4}, 1), {{{4, 10}, DType::f32}}},
          {attributes(0, {2, 3, 1}, 1), {{{6, 6}, DType::f32}}},
          {attributes(1, {4, 8}, 2), {{{2, 12, 3}, DType::f32}}}};
}

std::string_view Split::axioms() const {
  return R"(
axiom split_of_concat
  let (y1, y2) = split(a, s, concat(a, x1, x2, groups=g), groups=g)
  (y1, y2) = (x1, x2)
  where s == [dim(x1, a), dim(x2, a)]
axiom split_in_three_of_concat
  let (y1, y2, y3) = split(a, s, concat(a, x1, x2, x3, groups=g), groups=g)
  (y1, y2, y3) = (x1, x2, x3)
  where s == [dim(x1, a), dim(x2, a), dim(x3, a)]
)";
}
UNITY_DEFINE_OPERATOR(split, Split)

}  // namespace unity
