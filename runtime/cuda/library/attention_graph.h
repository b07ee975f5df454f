// Attention as one graph of cuDNN, which it runs as one kernel that keeps no s x t matrix in memory.
#pragma once

#include "runtime/cuda/library/cudnn_graph.h"

namespace unity::cuda {

// Ids of the tensors of the graph: q, k, v and y of the call; and numbers in host memory: the scale of the scores
// (f32), what scores become that causality hides (f32), and AttentionShape::shift (i32, where it is not 0).
enum AttentionId : std::int64_t { kQ = 1, kK, kV, kY, kScale, kHidden, kShift };

// q: [batch, heads, s, e], k: [batch, heads, t, e], v: [batch, heads, t, f], row-major. Causal: row i of s sees the
// columns 0 to i of t.
struct AttentionShape {
  std::int64_t batch = 1, heads = 1, s = 1, t = 1, e = 1, f = 1;
  bool causal = false;
};

// softmax(scale q k^T) v of bf16 operands, computed in f32.
std::vector<Descriptor> attention_graph(const AttentionShape& shape);

}  // namespace unity::cuda
