#include "core/ops/where.h"

#include "core/ops/define.h"

namespace unity {

Result<AxisTable> Where::axes(const Attributes&, std::span<const Shape> in) const {
  UNITY_TRY(expect_indices(name(), in, 0));
  for (std::size_t i : {1, 2})
    if (in[i].dtype == DType::i32) return fail("where: operand {} is {}, expected real numbers", i, to_string(in[i]));
  UNITY_TRY(expect_real(name(), in.subspan(1)));
  AxisTable t = UNITY_TRY(broadcast_table(name(), in, 1));
  t.inputs[1].linear = t.inputs[2].linear = true;
  t.linearity = Linearity::joint;
  return t;
}

void Where::gradient(const Attributes&, GradientBuilder& g) const {
  // Not a product with the condition, which may be any number.
  GradientValue dy = g.output_gradient(), none = g.apply("scale", {0.0}, {dy});
  if (g.wanted(1)) g.set_input_gradient(1, g.sum_to_input(g.apply("where", {}, {g.input(0), dy, none}), 1));
  if (g.wanted(2)) g.set_input_gradient(2, g.sum_to_input(g.apply("where", {}, {g.input(0), none, dy}), 2));
}

void Where::reference(const OpCall& call) const {
  const Operand &c = call.inputs[0], &x = call.inputs[1], &y = call.inputs[2];
  dispatch_reference(call, [&]<class T>() {
    for_each_index(call.outputs[0].extent, [&](const Dims& index, std::int64_t i) {
      bool first = c.as<std::int32_t>()[broadcast_position(c.extent, index)] != 0;
      call.outputs[0].as<T>()[i] =
          first ? x.as<T>()[broadcast_position(x.extent, index)] : y.as<T>()[broadcast_position(y.extent, index)];
    });
  });
}

std::vector<Example> Where::examples() const {
  return {{{}, {{{4, 6}, DType::i32}, {{4, 6}, DType::f32}, {{4, 6}, DType::f32}}, 2},
          {{}, {{{4, 1}, DType::i32}, {{2, 4, 6}, DType::f32}, {{}, DType::f32}}, 2}};
}
UNITY_DEFINE_OPERATOR(where, Where)

}  // namespace unity
