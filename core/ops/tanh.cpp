#include "core/ops/tanh.h"

#include "core/ops/define.h"

namespace unity {

void Tanh::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("tanh_gradient", {}, {g.output(0), g.output_gradient()}));
}

void Tanh::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i)
      call.outputs[0].as<T>()[i] = num::apply(num::Function::tanh, call.inputs[0].as<T>()[i]);
  });
}
UNITY_DEFINE_OPERATOR(tanh, Tanh)

void TanhGradient::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T y = call.inputs[0].as<T>()[i], dy = call.inputs[1].as<T>()[i];
      call.outputs[0].as<T>()[i] = (T(1) - y * y) * dy;
    }
  });
}
UNITY_DEFINE_OPERATOR(tanh_gradient, TanhGradient)

}  // namespace unity
