// Communicators of NCCL that have failed, or whose other ends have.
#pragma once

#include <vector>

#include <nccl.h>

namespace unity::cuda {

struct LocalCommunicator {
  ncclComm_t communicator = nullptr;
  int gpu = 0;
};

// Ends what they do on the GPUs. All at once: what one has to end may stand on a stream behind what another has. NCCL
// waits until the work is gone, and every captured graph with it, which must be destroyed by then; so that the reason
// is told in any case, this returns after some seconds at the latest.
void end_nccl(const std::vector<LocalCommunicator>& communicators);

}  // namespace unity::cuda
