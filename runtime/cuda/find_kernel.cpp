#include <unordered_map>

#include "runtime/cuda/call.h"

namespace unity::cuda {

#define UNITY_LEAF(name, Class)
#define UNITY_PARALLELIZATION(name, Class)
#define UNITY_OPERATOR(name, Class) void name##_kernel(const Call& call);
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

Held held_types(const Call& call) {
  bool floats = false, doubles = false, halves = false;
  for (std::span<const Operand> operands : {call.inputs, call.outputs})
    for (const Operand& o : operands) {
      floats |= o.dtype == DType::f32;
      doubles |= o.dtype == DType::f64;
      halves |= o.dtype == DType::bf16;
    }
  return doubles ? Held::doubles : halves ? Held::mixed : floats ? Held::floats : Held::integers;
}

void refuse_integers(const char* op) { UNITY_CHECK(false, "cuda kernel {}: has no element type i32", op); }

}  // namespace unity::cuda
