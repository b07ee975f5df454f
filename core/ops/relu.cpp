#include "core/ops/relu.h"

#include "core/ops/define.h"

namespace unity {

void Relu::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("relu_gradient", {}, {g.output(), g.output_gradient()}));
}

void Relu::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i)
      call.outputs[0].as<T>()[i] = num::apply(num::Function::relu, call.inputs[0].as<T>()[i]);
  });
}

std::string_view Relu::axioms() const {
  return R"(
axiom relu_idempotent
  relu(relu(x)) = relu(x)
)";
}
UNITY_DEFINE_OPERATOR(relu, Relu)

void ReluGradient::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i)
      call.outputs[0].as<T>()[i] =
          num::apply(num::Function::step, call.inputs[0].as<T>()[i]) * call.inputs[1].as<T>()[i];
  });
}
UNITY_DEFINE_OPERATOR(relu_gradient, ReluGradient)

}  // namespace unity
