// The GPUs of this machine that the backend can use.
#pragma once

#include <string>
#include <vector>

namespace unity::cuda {

struct Gpu {
  int ordinal = 0;
  std::string name;
  int capability = 0;  // 10 major + minor
};

// InputError that says what is missing: no driver, one too old for this build, no device, or none of an architecture
// that this build has code for (8.0 and newer).
std::vector<Gpu> find_gpus();

// The GPU of the i-th of `count` logical devices of process `local_rank` of `local_size` on this node: neighbours go to
// the same GPU where there are fewer GPUs than devices.
int gpu_of(int i, int count, int local_rank, int local_size, int gpus);

}  // namespace unity::cuda
