#include "core/ops/transpose.h"

#include <algorithm>
#include <cstring>

#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> Transpose::attributes() const { return {{"perm", AttributeKind::integers, true, {}}}; }

Result<AxisTable> Transpose::axes(const Attributes& a, std::span<const Shape> in) const {
  const auto& perm = ints_attribute(a, 0);
  std::size_t rank = in[0].dims.size();
  std::vector<bool> seen(rank, false);
  for (std::int64_t p : perm)
    if (p >= 0 && p < static_cast<std::int64_t>(rank)) seen[static_cast<std::size_t>(p)] = true;
  if (perm.size() != rank || std::find(seen.begin(), seen.end(), false) != seen.end())
    return fail("transpose: perm is {}, expected a permutation of the {} dimensions of {}", to_string(a[0]), rank,
                to_string(in[0]));
  AxisTable t;
  OperandAxes x, y;
  walk_dims(t, x, in[0].dims, 0, rank, AxisRole::parallel);
  for (std::int64_t p : perm) y.dims.push_back(x.dims[static_cast<std::size_t>(p)]);
  x.dtype = y.dtype = in[0].dtype;
  x.linear = true;
  t.inputs = {x};
  t.outputs = {y};
  t.linearity = Linearity::multilinear;
  t.flops_per_point = 0;
  return t;
}

void Transpose::gradient(const Attributes& a, GradientBuilder& g) const {
  const auto& perm = ints_attribute(a, 0);
  Integers inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  g.set_input_gradient(0, g.apply("transpose", {inverse}, {g.output_gradient()}));
}

void Transpose::reference(const OpCall& call) const {
  const auto& perm = ints_attribute(call.attributes, 0);
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  auto size = static_cast<std::size_t>(size_of(y.dtype));
  Dims from(perm.size());
  for_each_index(y.extent, [&](const Dims& index, std::int64_t i) {
    for (std::size_t d = 0; d < perm.size(); ++d) from[static_cast<std::size_t>(perm[d])] = index[d];
    std::memcpy(y.as<char>() + static_cast<std::size_t>(i) * size,
                x.as<char>() + static_cast<std::size_t>(position(x.extent, from)) * size, size);
  });
}

std::vector<Example> Transpose::examples() const {
  using Perm = Integers;
  return {{{Perm{1, 0}}, {{{4, 6}, DType::f32}}},
          {{Perm{0, 2, 1, 3}}, {{{2, 4, 3, 6}, DType::f32}}},
          {{Perm{2, 0, 1}}, {{{2, 4, 6}, DType::f32}}}};
}

std::string_view Transpose::axioms() const {
  return R"(
axiom transpose_involution_10
  transpose([1, 0], transpose([1, 0], x)) = x
axiom transpose_involution_021
  transpose([0, 2, 1], transpose([0, 2, 1], x)) = x
axiom transpose_involution_102
  transpose([1, 0, 2], transpose([1, 0, 2], x)) = x
axiom transpose_involution_210
  transpose([2, 1, 0], transpose([2, 1, 0], x)) = x
axiom transpose_involution_0132
  transpose([0, 1, 3, 2], transpose([0, 1, 3, 2], x)) = x
axiom transpose_involution_0213
  transpose([0, 2, 1, 3], transpose([0, 2, 1, 3], x)) = x
axiom transpose_involution_1023
  transpose([1, 0, 2, 3], transpose([1, 0, 2, 3], x)) = x
axiom transpose_cycle_left
  transpose([1, 2, 0], transpose([2, 0, 1], x)) = x
axiom transpose_cycle_right
  transpose([2, 0, 1], transpose([1, 2, 0], x)) = x
axiom transpose_identity_1
  transpose([0], x) = x
axiom transpose_identity_2
  transpose([0, 1], x) = x
axiom transpose_identity_3
  transpose([0, 1, 2], x) = x
axiom transpose_identity_4
  transpose([0, 1, 2, 3], x) = x
)";
}
UNITY_DEFINE_OPERATOR(transpose, Transpose)

}  // namespace unity
