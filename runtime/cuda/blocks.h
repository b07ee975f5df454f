// Moving dense row-major blocks of logical tensors in device memory, as runtime/cpu/blocks.h does on the host. Work is
// queued on the stream. Memory of another device that the stream's device may read is as good as its own.
#pragma once

#include "core/ops/operator.h"
#include "runtime/cuda/launch.h"

namespace unity::cuda {

// A block of a logical tensor, in whose coordinates its box is.
struct DeviceBlock {
  void* data = nullptr;
  Box box;
  DType dtype = DType::f32;  // f32, f64, i32 or bf16
};

// target[box] = source[box]. Both of one type, or one f32 and one bf16. CHECKs that both blocks hold the box.
void copy_block(Stream stream, const DeviceBlock& target, const DeviceBlock& source, const Box& box);

// target[box] += source[box], likewise. Each element is one addition (bf16: in f32, then rounded), so the order of
// calls fixes the result.
void accumulate_block(Stream stream, const DeviceBlock& target, const DeviceBlock& source, const Box& box);

// to[i] = to[i] + from[i], or the larger of the two.
void combine(Stream stream, void* to, const void* from, std::int64_t elements, DType dtype, Monoid monoid);

// `bytes` from one place to another, both at multiples of a word, as `bytes` is one.
struct FlatCopy {
  static constexpr std::int64_t kWord = 4;
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t bytes = 0;
};
// All copies of a list in device memory, in one launch. No two may meet in what one of them writes.
void copy_all(Stream stream, const FlatCopy* list, std::int64_t count);

// Sets `elements` elements to zero.
void zero_block(Stream stream, void* target, std::int64_t elements, DType dtype);

}  // namespace unity::cuda
