#include "core/ops/greater.h"

#include "core/ops/define.h"

namespace unity {

Result<AxisTable> Greater::axes(const Attributes& a, std::span<const Shape> in) const {
  AxisTable t = UNITY_TRY(BroadcastOperator::axes(a, in));
  t.outputs[0].dtype = DType::i32;
  return t;
}

void Greater::reference(const OpCall& call) const {
  const Operand &x = call.inputs[0], &y = call.inputs[1], &z = call.outputs[0];
  dispatch_reference_type(x.dtype, [&]<class T>() {
    for_each_index(z.extent, [&](const Dims& index, std::int64_t i) {
      z.as<std::int32_t>()[i] =
          greater(x.as<T>()[broadcast_position(x.extent, index)], y.as<T>()[broadcast_position(y.extent, index)]);
    });
  });
}
UNITY_DEFINE_OPERATOR(greater, Greater)

}  // namespace unity
