#include "core/ops/silu.h"

#include "core/ops/define.h"

namespace unity {

void Silu::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("silu_gradient", {}, {g.input(0), g.output_gradient()}));
}

void Silu::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T x = call.inputs[0].as<T>()[i];
      call.outputs[0].as<T>()[i] = x * num::apply(num::Function::sigmoid, x);
    }
  });
}

std::string_view Silu::axioms() const {
  return R"(
axiom silu_definition
  silu(x) = mul(x, sigmoid(x))
)";
}
UNITY_DEFINE_OPERATOR(silu, Silu)

void SiluGradient::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T x = call.inputs[0].as<T>()[i], s = num::apply(num::Function::sigmoid, x);
      call.outputs[0].as<T>()[i] = s * (T(1) + x * (T(1) - s)) * call.inputs[1].as<T>()[i];
    }
  });
}
UNITY_DEFINE_OPERATOR(silu_gradient, SiluGradient)

}  // namespace unity
