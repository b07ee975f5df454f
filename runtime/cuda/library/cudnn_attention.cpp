#include "runtime/cuda/library/library.h"

namespace unity::cuda {

Result<LibraryPlan> cudnn_attention(Libraries&, const LibraryCall& call) { return fail("{}: not yet", call.op.name()); }

}  // namespace unity::cuda
