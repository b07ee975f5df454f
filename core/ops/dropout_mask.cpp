#include "core/ops/dropout_mask.h"

#include "core/ops/define.h"
#include "core/ops/elementwise.h"

namespace unity {

std::vector<AttributeSpec> DropoutMask::attributes() const {
  return {{"shape", AttributeKind::integers, true, {}}, {"rate", AttributeKind::real, true, 0.0}};
}

Result<AxisTable> DropoutMask::axes(const Attributes& a, std::span<const Shape>) const {
  double rate = real_attribute(a, 1);
  if (!(rate >= 0 && rate < 1)) return fail("dropout_mask: rate is {}, expected at least 0 and below 1", rate);
  for (std::int64_t size : ints_attribute(a, 0))
    if (size < 1) return fail("dropout_mask: shape is {}, expected sizes of at least 1", to_string(a[0]));
  return elementwise_table({ints_attribute(a, 0), DType::f32}, 0, 8);
}

void DropoutMask::reference(const OpCall& call) const {
  const Operand& y = call.outputs[0];
  double rate = real_attribute(call.attributes, 1);
  dispatch_reference(call, [&]<class T>() {
    T kept = constant<T>(1 / (1 - rate));
    for_each_index(y.extent, [&](const Dims& index, std::int64_t i) {
      Dims logical = index;
      for (std::size_t d = 0; d < index.size(); ++d) logical[d] += y.offset[d];
      y.as<T>()[i] = dropout_keeps(call.random, position(y.global, logical), rate) ? kept : T(0);
    });
  });
}

std::vector<Example> DropoutMask::examples() const { return {{{Dims{4, 6}, 0.5}, {}}, {{Dims{2, 4, 6}, 0.1}, {}}}; }
UNITY_DEFINE_OPERATOR(dropout_mask, DropoutMask)

}  // namespace unity
