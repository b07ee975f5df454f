#include "core/ops/boundary.h"

#include <algorithm>

#include "core/ops/define.h"
#include "core/ops/elementwise.h"

namespace unity {

std::vector<AttributeSpec> Boundary::attributes() const {
  return {{"shape", AttributeKind::integers, true, {}},
          {"degrees", AttributeKind::integers, true, {}},
          {"copies", AttributeKind::integer, true, {}},
          {"dtype", AttributeKind::text, false, std::string("f32")}};
}
Result<AxisTable> Boundary::axes(const Attributes& a, std::span<const Shape>) const {
  return elementwise_table({ints_attribute(a, 0), UNITY_TRY(parse_dtype(text_attribute(a, 3)))}, 0, 0);
}
Result<std::vector<ParallelShape>> Boundary::parallel_shapes(const Attributes& a,
                                                             const std::vector<ParallelShape>&) const {
  ParallelShape shape = serial({ints_attribute(a, 0), UNITY_TRY(parse_dtype(text_attribute(a, 3)))});
  const Integers& degrees = ints_attribute(a, 1);
  if (degrees.size() != shape.dims.size())
    return fail("boundary: found {} degrees, expected {}", degrees.size(), shape.dims.size());
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    if (degrees[i] < 1 || shape.dims[i].size % degrees[i] != 0)
      return fail("boundary: degree {} does not divide dimension {} of size {}", degrees[i], i, shape.dims[i].size);
    shape.dims[i].degree = static_cast<int>(degrees[i]);
  }
  shape.copies = static_cast<int>(int_attribute(a, 2));
  return std::vector<ParallelShape>{shape};
}
void Boundary::reference(const OpCall&) const { UNITY_CHECK(false, "a boundary has no value of its own"); }
UNITY_DEFINE_OPERATOR(boundary, Boundary)

Result<AxisTable> Deliver::axes(const Attributes&, std::span<const Shape> in) const {
  return elementwise_table(in[0], 1, 0);
}
void Deliver::reference(const OpCall& call) const {
  auto bytes = static_cast<std::size_t>(call.outputs[0].elements() * size_of(call.outputs[0].dtype));
  std::copy_n(call.inputs[0].as<char>(), bytes, call.outputs[0].as<char>());
}
UNITY_DEFINE_OPERATOR(deliver, Deliver)

}  // namespace unity
