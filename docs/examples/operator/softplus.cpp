#include "docs/examples/operator/softplus.h"

#include "core/ops/define.h"

namespace unity {

// d softplus / dx = sigmoid(x): a graph of operators that are there already, so no kernel of its own.
void Softplus::gradient(const Attributes&, GradientBuilder& g) const {
  GradientValue slope = g.apply("sigmoid", {}, {g.input(0)});
  g.set_input_gradient(0, g.apply("mul", {}, {slope, g.output_gradient()}));
}

// num::apply has stand-ins for exp and log in exact arithmetic, where the axioms are checked.
void Softplus::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T e = num::apply(num::Function::exp, call.inputs[0].as<T>()[i]);
      call.outputs[0].as<T>()[i] = num::apply(num::Function::log, T(1) + e);
    }
  });
}

std::string_view Softplus::axioms() const {
  return R"(
axiom softplus_definition
  softplus(x) = log(shift(1, exp(x)))
)";
}
UNITY_DEFINE_OPERATOR(softplus, Softplus)

}  // namespace unity
