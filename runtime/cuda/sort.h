// Sorting on the device, for kernel sources: equal keys keep their order.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/cuda/launch.h"

#ifndef UNITY_CUDA_EMULATED
#include <cub/device/device_radix_sort.cuh>
#else
#include <algorithm>
#include <numeric>
#include <vector>
#endif

namespace unity::cuda {

// Keys in [0, bound] with a value each, before and after sorting. All on the device.
struct SortedPairs {
  std::uint32_t *keys, *sorted_keys;
  std::int32_t *values, *sorted_values;
  std::int64_t n, bound;
};

#ifndef UNITY_CUDA_EMULATED
// How much memory a sort needs besides.
inline std::size_t sort_bytes(const SortedPairs& p) {
  std::size_t bytes = 0;
  int bits = std::bit_width(static_cast<std::uint64_t>(p.bound));
  UNITY_CUDA_CHECK(
      cub::DeviceRadixSort::SortPairs(nullptr, bytes, p.keys, p.sorted_keys, p.values, p.sorted_values, p.n, 0, bits));
  return bytes;
}
inline void sort_pairs(Stream stream, void* memory, std::size_t bytes, const SortedPairs& p) {
  int bits = std::bit_width(static_cast<std::uint64_t>(p.bound));
  UNITY_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(memory, bytes, p.keys, p.sorted_keys, p.values, p.sorted_values, p.n,
                                                   0, bits, stream));
}
#else
inline std::size_t sort_bytes(const SortedPairs&) { return 0; }
inline void sort_pairs(Stream stream, void*, std::size_t, const SortedPairs& p) {
  emulate(stream, [p] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(p.n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return p.keys[a] < p.keys[b]; });
    for (std::size_t i = 0; i < order.size(); ++i)
      p.sorted_keys[i] = p.keys[order[i]], p.sorted_values[i] = p.values[order[i]];
  });
}
#endif

}  // namespace unity::cuda
