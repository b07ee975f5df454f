#include "core/ops/log.h"

#include "core/ops/define.h"

namespace unity {

void Log::gradient(const Attributes&, GradientBuilder& g) const {
  g.set_input_gradient(0, g.apply("div", {}, {g.output_gradient(), g.input(0)}));
}

void Log::reference(const OpCall& call) const {
  dispatch_reference(call, [&]<class T>() {
    for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) {
      T x = call.inputs[0].as<T>()[i];
      call.outputs[0].as<T>()[i] = num::apply(num::Function::log, x);
    }
  });
}

std::vector<Example> Log::examples() const {
  return {{{}, {{{4, 6}, DType::f32}}, 0, 0.5, 2}, {{}, {{{2, 4, 6}, DType::f32}}, 0, 0.5, 2}};
}
UNITY_DEFINE_OPERATOR(log, Log)

}  // namespace unity
