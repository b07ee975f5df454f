#include "core/ops/boundary.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/elementwise.h"

namespace unity {

std::vector<AttributeSpec> Boundary::attributes() const {
  return {{"shape", AttributeKind::integers, true, {}}, {"dtype", AttributeKind::text, false, std::string("f32")}};
}
Result<AxisTable> Boundary::axes(const Attributes& a, std::span<const Shape>) const {
  AxisTable table = elementwise_table({ints_attribute(a, 0), UNITY_TRY(parse_dtype(text_attribute(a, 1)))}, 0, 0);
  return table;
}
void Boundary::reference(const OpCall&) const { UNITY_CHECK(false, "a boundary has no value of its own"); }
UNITY_DEFINE_OPERATOR(boundary, Boundary)

Result<AxisTable> Deliver::axes(const Attributes&, std::span<const Shape> in) const { return elementwise_table(in[0], 1, 0); }
void Deliver::reference(const OpCall& call) const {
  auto bytes = static_cast<std::size_t>(call.outputs[0].elements() * size_of(call.outputs[0].dtype));
  std::copy_n(call.inputs[0].as<char>(), bytes, call.outputs[0].as<char>());
}
UNITY_DEFINE_OPERATOR(deliver, Deliver)

}  // namespace unity
