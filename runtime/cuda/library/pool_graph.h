// Pooling as graphs of cuDNN of one operation, which cuDNN calls resampling.
#pragma once

#include "runtime/cuda/library/conv_shapes.h"
#include "runtime/cuda/library/cudnn_graph.h"

namespace unity::cuda {

// Ids of the tensors of the graph.
// x and y, or their gradients; then, of a gradient alone, x and y, which engines ask for though means do not read them.
constexpr std::array<std::int64_t, 4> kPoolIds = {1, 2, 3, 4};

// What becomes of a window: its largest element, or its sum over the size of the window, or over what of it is not
// padding. The largest of elements of which one is NaN is NaN.
enum class Pooling : std::uint8_t { max, mean, mean_inside };

// y from x; `backward`: the gradient of x from that of y, of means alone. All of one type; bf16 is computed in f32.
std::vector<Descriptor> pool_graph(const PoolShape& shape, Pooling pooling, bool backward, DType type);

}  // namespace unity::cuda
