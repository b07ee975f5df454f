// Tests that need a GPU say so where there is none, and count as skipped.
#pragma once

#include <string>

namespace unity::test {

// Whether the CUDA backend can run here. If not, prints "skipped: no CUDA device" with the reason; by that ctest knows.
bool gpu_or_skip();

// Whether so many devices are to be put on one GPU: there are several GPUs, but not one for each (where some would
// share one, NCCL could not serve them all).
bool shares_gpu(const std::string& backend, int devices);

}  // namespace unity::test
