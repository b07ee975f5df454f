#include "core/ops/gelu.h"

#include "core/ops/define.h"

namespace unity {

void Gelu::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("gelu_gradient", {}, {g.input(0), g.output_gradient()}));
}

void Gelu::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i)
      call.outputs[0].as<T>()[i] = num::apply(num::Function::gelu, call.inputs[0].as<T>()[i]);
  });
}
UNITY_DEFINE_OPERATOR(gelu, Gelu)

void GeluGradient::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T x = call.inputs[0].as<T>()[i], dy = call.inputs[1].as<T>()[i];
      call.outputs[0].as<T>()[i] = num::apply(num::Function::gelu_slope, x) * dy;
    }
  });
}
UNITY_DEFINE_OPERATOR(gelu_gradient, GeluGradient)

}  // namespace unity
