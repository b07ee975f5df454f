// The kernel of the CPU backend, in f32 and f64. log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)) does not overflow.
#include <cmath>

#include "runtime/cpu/elementwise_tools.h"

namespace unity::cpu {

void softplus_kernel(const OpCall& call) {
  unary(call, [](auto x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))); });
}

}  // namespace unity::cpu
