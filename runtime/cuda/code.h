// Whether GPUs take the code of this build's kernels, as far as it is known before one is launched.
#pragma once

#include <cuda_runtime_api.h>

namespace unity::cuda {

// Of the current GPU, which loads code for it: success, or why it takes none; as of PTX that a newer CUDA made than the
// driver knows.
cudaError_t code_status();

}  // namespace unity::cuda
