#include "core/ops/sqrt.h"

#include "core/ops/define.h"

namespace unity {

void Sqrt::gradient(const Attributes&, GradientBuilder& g) const {
  GradientValue half = g.apply("scale", {0.5}, {g.output_gradient()});
  g.set_input_gradient(0, g.apply("div", {}, {half, g.output()}));
}

void Sqrt::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T x = call.inputs[0].as<T>()[i];
      call.outputs[0].as<T>()[i] = num::apply(num::Function::sqrt, x);
    }
  });
}
std::vector<Example> Sqrt::examples() const {
  return {{{}, {{{4, 6}, DType::f32}}, 0, 0.5, 2}, {{}, {{{2, 4, 6}, DType::f32}}, 0, 0.5, 2}};
}
UNITY_DEFINE_OPERATOR(sqrt, Sqrt)

}  // namespace unity
