#include "core/ops/add.h"

#include "core/ops/define.h"

namespace unity {

void Add::gradient(const Attributes&, GradientBuilder& g) const {
  for (int i : {0, 1})
    if (g.wanted(i)) g.set_input_gradient(i, g.sum_to_input(g.output_gradient(), i));
}

void Add::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    const Operand &x = call.inputs[0], &y = call.inputs[1];
    for_each_index(call.outputs[0].extent, [&](const Dims& index, std::int64_t i) {
      call.outputs[0].as<T>()[i] =
          x.as<T>()[broadcast_position(x.extent, index)] + y.as<T>()[broadcast_position(y.extent, index)];
    });
  });
}
UNITY_DEFINE_OPERATOR(add, Add)

}  // namespace unity
