// What a Program's communications are to NCCL.
#pragma once

#include <nccl.h>

#include "core/base/error.h"
#include "core/plan/program.h"

namespace unity::cuda {

inline ncclDataType_t nccl_type(DType held) {
  switch (held) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    default:
      UNITY_CHECK(false, "NCCL does not carry {}", to_string(held));
  }
}

inline ncclRedOp_t nccl_operation(Monoid monoid) { return monoid == Monoid::sum ? ncclSum : ncclMax; }

}  // namespace unity::cuda
