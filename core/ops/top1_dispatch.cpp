#include "core/ops/top1_dispatch.h"

#include <algorithm>

#include "core/ops/define.h"

namespace unity {

std::vector<AttributeSpec> Top1Dispatch::attributes() const { return {{"capacity", AttributeKind::integer, true, {}}}; }

Result<AxisTable> Top1Dispatch::axes(const Attributes& a, std::span<const Shape> in) const {
  UNITY_TRY(expect_real(name(), in));
  if (in[0].dims.size() != 3) return fail("top1_dispatch: gates are {}, expected [b, t, e]", to_string(in[0]));
  if (int_attribute(a, 0) < 1) return fail("top1_dispatch: capacity is {}, expected at least 1", int_attribute(a, 0));
  AxisTable t;
  int b = add_axis(t, "b", in[0].dims[0], AxisRole::parallel),
      tokens = add_axis(t, "t", in[0].dims[1], AxisRole::whole);
  int e = add_axis(t, "e", in[0].dims[2], AxisRole::whole);
  int c = add_axis(t, "c", int_attribute(a, 0), AxisRole::whole);
  t.inputs = {walks(b, tokens, e)};
  t.outputs = {walks(b, tokens, e, c)};
  t.inputs[0].dtype = t.outputs[0].dtype = in[0].dtype;
  t.flop_axes = {b, tokens, e};
  return t;
}

void Top1Dispatch::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  std::int64_t tokens = x.extent[1], experts = x.extent[2], capacity = y.extent[3];
  dispatch_reference(call, [&]<class T>() {
    std::fill_n(y.as<T>(), y.elements(), T(0));
    for (std::int64_t b = 0; b < x.extent[0]; ++b) {
      Integers taken(static_cast<std::size_t>(experts), 0);
      for (std::int64_t t = 0; t < tokens; ++t) {
        std::int64_t row = b * tokens + t, best = 0;
        for (std::int64_t e = 1; e < experts; ++e)
          if (greater(x.as<T>()[row * experts + e], x.as<T>()[row * experts + best])) best = e;
        std::int64_t place = taken[static_cast<std::size_t>(best)]++;
        if (place < capacity) y.as<T>()[(row * experts + best) * capacity + place] = T(1);
      }
    }
  });
}

std::vector<Example> Top1Dispatch::examples() const {
  return {{{std::int64_t{2}}, {{{2, 4, 3}, DType::f32}}}, {{std::int64_t{3}}, {{{4, 6, 2}, DType::f32}}}};
}
UNITY_DEFINE_OPERATOR(top1_dispatch, Top1Dispatch)

}  // namespace unity
