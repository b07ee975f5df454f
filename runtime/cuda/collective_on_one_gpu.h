// Communications among logical devices of one GPU: kernels on its memory.
#pragma once

#include "runtime/cuda/collective.h"

namespace unity::cuda {

// Enqueues, on the first one's stream, which must wait for the others'.
void run_on_one_gpu(const Communication& c, DType held, const std::vector<LocalParticipant>& all);

}  // namespace unity::cuda
