// Where buffers, and pieces of scratch memory, may begin on the device.
#pragma once

#include <cstdint>

namespace unity::cuda {

inline constexpr std::int64_t kAlignment = 256;  // bytes, as cudaMalloc gives at least

// So many bytes, and what is left free behind them before the next piece.
constexpr std::int64_t aligned_bytes(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace unity::cuda
