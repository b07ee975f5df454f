// How the backend works, as the environment says (docs/gpu.md).
#pragma once

#include <optional>
#include <string>

#include "core/machine/precision.h"
#include "runtime/cuda/library/library.h"

namespace unity::cuda {

struct Ways {
  bool channels_last = false;       // images as image_layout.h has them
  std::optional<bool> eager;        // iterations task by task, not as graphs; not said: where graphs may hang
  bool careful = false;             // task by task, and each task is waited for
  Choice choice = Choice::fastest;  // of kernels
  bool by_graph(bool may_hang) const { return !careful && !eager.value_or(may_hang); }
};

// UNITY_CUDA_LAYOUT ("channels-last" or "rows"; by default the former in bf16 and TF32, as it is for tensor cores),
// UNITY_CUDA_EAGER and UNITY_CUDA_SYNC ("0" or "1"), UNITY_CUDA_TUNE ("0", "1" or "last"). InputError on other values.
Ways ways_of_environment(Precision precision);

// What processes must have alike: they exchange images as these lie, and NCCL expects that all of them capture a call
// or none.
std::string in_words(const Ways& ways);

// InputError where CUDA_LAUNCH_BLOCKING is set, for a process that has several GPUs with NCCL: of a call of NCCL the
// launch on the first of them would wait for those on the others, which come behind it.
void refuse_blocking_launches();

// In place of std::getenv, where a test has one.
[[gnu::weak]] const char* emulated_variable(const char* name);

}  // namespace unity::cuda
