// What a kernel of the CUDA backend is called with. Operands lie on the device; otherwise as in core/ops/operator.h.
#pragma once

#include <functional>

#include "core/ops/operator.h"
#include "runtime/cuda/elements.h"
#include "runtime/cuda/launch.h"

namespace unity::cuda {

// What changes from step to step. In device memory, so that a captured graph of an iteration stays as it is.
struct StepValues {
  std::uint64_t step = 0;  // counts from 0
  double rate_factor = 1;  // of the optimizer's learning rate
};

struct Call {
  const Attributes& attributes;
  std::span<const Operand> inputs, outputs;
  RandomKey random;        // (seed, origin id); of this step: random.with(step->step), on the device
  const StepValues* step;  // on the device
  Stream stream;
  const std::function<void*(std::int64_t bytes)>& scratch;  // device memory, aligned to 256, of this call alone; once
  // Operands of four dimensions [n, c, h, w] lie in memory as [n, h, w, c], their blocks dense in that order; extents,
  // offsets and attributes are as ever. Of operators that say so in layouts.h.
  bool channels_last = false;
};

using Kernel = void (*)(const Call&);

// Our own kernel of an operator, which takes any shape and element type. Null for operators that have none (leaves,
// parallelization).
Kernel find_kernel(const Operator& op);

enum class Held { floats, doubles, mixed, integers };
// From the real operands; integers where there are none.
Held held_types(const Call& call);

// Defines name_kernel from the template name_of<R>.
#define UNITY_CUDA_KERNEL(name)       \
  void name##_kernel(const Call& c) { \
    switch (held_types(c)) {          \
      case Held::floats:              \
        return name##_of<Floats>(c);  \
      case Held::doubles:             \
        return name##_of<Doubles>(c); \
      case Held::mixed:               \
        return name##_of<Mixed>(c);   \
      case Held::integers:            \
        refuse_integers(#name);       \
    }                                 \
  }
// The same for those that also move i32.
#define UNITY_CUDA_MOVEMENT(name)      \
  void name##_kernel(const Call& c) {  \
    switch (held_types(c)) {           \
      case Held::floats:               \
        return name##_of<Floats>(c);   \
      case Held::doubles:              \
        return name##_of<Doubles>(c);  \
      case Held::mixed:                \
        return name##_of<Mixed>(c);    \
      case Held::integers:             \
        return name##_of<Integers>(c); \
    }                                  \
  }
[[noreturn]] void refuse_integers(const char* op);

}  // namespace unity::cuda
