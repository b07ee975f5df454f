#include "core/ops/sigmoid.h"

#include "core/ops/define.h"

namespace unity {

void Sigmoid::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("sigmoid_gradient", {}, {g.output(0), g.output_gradient()}));
}

void Sigmoid::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i)
      call.outputs[0].as<T>()[i] = num::apply(num::Function::sigmoid, call.inputs[0].as<T>()[i]);
  });
}
UNITY_DEFINE_OPERATOR(sigmoid, Sigmoid)

void SigmoidGradient::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T y = call.inputs[0].as<T>()[i], dy = call.inputs[1].as<T>()[i];
      call.outputs[0].as<T>()[i] = y * (T(1) - y) * dy;
    }
  });
}
UNITY_DEFINE_OPERATOR(sigmoid_gradient, SigmoidGradient)

}  // namespace unity
