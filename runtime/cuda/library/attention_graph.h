// Attention as one graph of cuDNN, which it runs as one kernel that keeps no s x t matrix in memory.
#pragma once

#include "runtime/cuda/library/cudnn_graph.h"

namespace unity::cuda {

// Ids of the tensors of the graphs: operands and results of the call; the logarithm of the sum of the exponentials of
// each row of scores, and sum(y dy) of each row, f32 [batch, heads, s, 1]; and numbers of type f32 in host memory: the
// scale of the scores, what scores become that causality hides (only there), and 1.
enum AttentionId : std::int64_t { kQ = 1, kK, kV, kY, kDy, kDq, kDk, kDv, kLogSums, kInner, kScale, kHidden, kOne };

// q: [batch, heads, s, e], k: [batch, heads, t, e], v: [batch, heads, t, f], row-major. Causal: row i of s sees the
// columns 0 to i of t.
struct AttentionShape {
  std::int64_t batch = 1, heads = 1, s = 1, t = 1, e = 1, f = 1;
  bool causal = false;
};

// kY = softmax(scale kQ kK^T) kV of bf16 operands, computed in f32; gives kLogSums if asked to.
std::vector<Descriptor> attention_graph(const AttentionShape& shape, bool log_sums);

// kDq, kDk and kDv from kQ, kK, kV, kY, kDy and kLogSums; kInner is written on the way. cuDNN keeps the gradients of
// all scores in its workspace, so that sums have a fixed order.
std::vector<Descriptor> attention_gradient_graph(const AttentionShape& shape);

}  // namespace unity::cuda
