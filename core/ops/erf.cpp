#include "core/ops/erf.h"

#include "core/ops/define.h"

namespace unity {

// 2 / sqrt(pi) exp(-x^2) dy
void Erf::gradient(const Attributes&, GradientBuilder& g) const {
  GradientValue square = g.apply("mul", {}, {g.input(0), g.input(0)});
  GradientValue bell = g.apply("exp", {}, {g.apply("scale", {-1.0}, {square})});
  g.set_input_gradient(0, g.apply("mul", {}, {g.apply("scale", {M_2_SQRTPI}, {bell}), g.output_gradient()}));
}

void Erf::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i)
      call.outputs[0].as<T>()[i] = num::apply(num::Function::erf, call.inputs[0].as<T>()[i]);
  });
}
UNITY_DEFINE_OPERATOR(erf, Erf)

}  // namespace unity
