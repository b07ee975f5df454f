// How a Program's images lie in device memory. cuDNN's kernels on tensor cores want the channels of an image side by
// side: [n, h, w, c] where Unity says [n, c, h, w]. Tensors of four dimensions that only operators which can do so
// read and write are held so, activations, filters and their gradients alike.
//
// That is said as a Program of its own, whose tensors, boxes and attributes have their dimensions in that order: most
// operators, copies and communications know nothing of it. Image operators (is_image_operator) have attributes that
// name no dimensions, but mean them: their kernels get operands as Unity says, and Call::channels_last.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/program.h"

namespace unity::cuda {

struct ImageLayout {
  std::vector<bool> channels_last;  // by tensor
  std::optional<Program> program;   // none where no tensor is
};

// Of a Program as lowered. No tensor lies so unless `wanted`, where there are no convolutions, pooling or norms of
// batches, and where an operator that needs rows is among those of an image.
ImageLayout image_layout(const Program& program, bool wanted);

// Convolutions, pooling, batch norm, its moments, and their gradients; reshape, between an image and what is none.
bool is_image_operator(const Operator& op);

// [n, c, h, w], of which the first may be left out, as [n, h, w, c]; and back.
Dims to_channels_last(const Dims& dims);
Dims from_channels_last(const Dims& dims);
// Moves elements of `size` bytes of an image of these [n, c, h, w] from one order to the other, in host memory.
void to_channels_last(const Dims& dims, std::size_t size, const void* from, void* to);
void from_channels_last(const Dims& dims, std::size_t size, const void* from, void* to);

}  // namespace unity::cuda
