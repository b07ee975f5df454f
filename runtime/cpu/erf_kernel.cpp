// Element-wise kernels of imported models.
#include "runtime/cpu/exponential.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

template <class F>
void map(const OpCall& call, F&& f) {
  dispatch(call, [&]<class T>() {
    const T* x = call.inputs[0].as<T>();
    T* y = call.outputs[0].as<T>();
    std::int64_t n = call.outputs[0].elements();
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  });
}

}  // namespace

void erf_kernel(const OpCall& call) {
  map(call, [](auto x) { return error_function(x); });
}

void shift_kernel(const OpCall& call) {
  double amount = real_attribute(call.attributes, 0);
  map(call, [amount](auto x) { return x + static_cast<decltype(x)>(amount); });
}

}  // namespace unity::cpu
