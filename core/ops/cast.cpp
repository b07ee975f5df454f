#include "core/ops/cast.h"

#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> Cast::attributes() const { return {{"dtype", AttributeKind::text, true, {}}}; }

Result<AxisTable> Cast::axes(const Attributes& a, std::span<const Shape> in) const {
  DType to = UNITY_TRY(parse_dtype(text_attribute(a, 0)));
  if (to != DType::f32 && to != DType::i32) return fail("cast: dtype is {}, expected f32 or i32", text_attribute(a, 0));
  AxisTable t = elementwise_table(in[0], 1, 0);
  // A real stays what it is held as: f64 in a double-precision evaluation.
  if (to == DType::i32 || in[0].dtype == DType::i32) t.outputs[0].dtype = to;
  if (to == DType::f32 && in[0].dtype != DType::i32) {
    t.inputs[0].linear = true;
    t.linearity = Linearity::multilinear;
  }
  return t;
}

void Cast::gradient(const Attributes& a, GradientBuilder& g) const {
  if (text_attribute(a, 0) == "f32" && g.shape(g.input(0)).dtype != DType::i32)
    g.set_input_gradient(0, g.output_gradient());
}

void Cast::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  std::int64_t n = y.elements();
  if (y.dtype == DType::i32) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (x.dtype == DType::i32) y.as<std::int32_t>()[i] = x.as<std::int32_t>()[i];
      if (x.dtype == DType::f64) y.as<std::int32_t>()[i] = static_cast<std::int32_t>(x.as<double>()[i]);
      if (x.dtype == DType::i64) y.as<std::int32_t>()[i] = static_cast<std::int32_t>(x.as<std::int64_t>()[i]);
      if (x.dtype == DType::mod) y.as<std::int32_t>()[i] = static_cast<std::int32_t>(x.as<Mod>()[i].value & 0xffff);
    }
    return;
  }
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < n; ++i)
      y.as<T>()[i] = x.dtype == DType::i32 ? T(static_cast<std::int64_t>(x.as<std::int32_t>()[i])) : x.as<T>()[i];
  });
}

std::vector<Example> Cast::examples() const {
  return {{{std::string("f32")}, {{{4, 6}, DType::i32}}, 5},
          {{std::string("i32")}, {{{2, 4, 6}, DType::f32}}},
          {{std::string("f32")}, {{{4, 6}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(cast, Cast)

}  // namespace unity
