#include "core/ops/exp.h"

#include "core/ops/define.h"

namespace unity {

void Exp::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("mul", {}, {g.output(), g.output_gradient()}));
}

void Exp::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T x = call.inputs[0].as<T>()[i];
      call.outputs[0].as<T>()[i] = num::apply(num::Function::exp, x);
    }
  });
}

UNITY_DEFINE_OPERATOR(exp, Exp)

}  // namespace unity
