// How the backend works, as the environment says (docs/gpu.md).
#pragma once

#include <string>

#include "core/machine/precision.h"
#include "runtime/cuda/library/library.h"

namespace unity::cuda {

struct Ways {
  bool channels_last = false;       // images as image_layout.h has them
  bool eager = false;               // iterations task by task, not as graphs
  bool careful = false;             // so, too, and each task is waited for
  Choice choice = Choice::fastest;  // of kernels
  bool by_graph() const { return !eager && !careful; }
};

// UNITY_CUDA_LAYOUT ("channels-last" or "rows"; by default the former in bf16 and TF32, as it is for tensor cores),
// UNITY_CUDA_EAGER and UNITY_CUDA_SYNC ("0" or "1"), UNITY_CUDA_TUNE ("0", "1" or "last"). InputError on other values.
Ways ways_of_environment(Precision precision);

// What processes must have alike: they exchange images as these lie, and NCCL expects that all of them capture a call
// or none.
std::string in_words(const Ways& ways);

// In place of std::getenv, where a test has one.
[[gnu::weak]] const char* emulated_variable(const char* name);

}  // namespace unity::cuda
