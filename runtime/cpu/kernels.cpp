#include "runtime/cpu/kernels.h"

#include <unordered_map>

namespace unity::cpu {

#define UNITY_LEAF(name, Class)
#define UNITY_PARALLELIZATION(name, Class)
#define UNITY_OPERATOR(name, Class) void name##_kernel(const OpCall& call);
#include "core/ops/operators.def"
#undef UNITY_OPERATOR

Kernel find_kernel(const Operator& op) {
  static const std::unordered_map<std::string_view, Kernel> kernels = {
#define UNITY_OPERATOR(name, Class) {#name, &name##_kernel},
#include "core/ops/operators.def"
#undef UNITY_OPERATOR
#undef UNITY_LEAF
#undef UNITY_PARALLELIZATION
  };
  auto found = kernels.find(op.name());
  return found == kernels.end() ? nullptr : found->second;
}

}  // namespace unity::cpu
