// Loop nests over dense row-major blocks: what kernels of every backend make of broadcasting, reductions and boxes
// before they run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/ops/operator.h"

namespace unity {

// Row-major strides of a block, in elements.
inline Dims strides(const Dims& extent) {
  Dims s(extent.size(), 1);
  for (std::size_t d = extent.size(); d-- > 1;) s[d - 1] = s[d] * extent[d];
  return s;
}

// One loop of a nest over N blocks: its length and each block's stride in elements.
template <std::size_t N>
struct Loop {
  std::int64_t length = 1;
  std::array<std::int64_t, N> stride{};
};

// Joins neighbouring loops that every block walks as one, and drops loops of length 1. At least one loop remains.
template <std::size_t N>
std::vector<Loop<N>> collapse(const std::vector<Loop<N>>& loops) {
  std::vector<Loop<N>> result;
  for (const Loop<N>& loop : loops) {
    if (loop.length == 1) continue;
    bool joins = !result.empty();
    for (std::size_t i = 0; joins && i < N; ++i) joins = result.back().stride[i] == loop.stride[i] * loop.length;
    if (joins)
      result.back().length *= loop.length, result.back().stride = loop.stride;
    else
      result.push_back(loop);
  }
  if (result.empty()) result.emplace_back();
  return result;
}

// The stride of a broadcast operand in each dimension of the result: 0 where it is repeated.
inline Dims broadcast_strides(const Operand& operand, const Dims& result) {
  Dims own = strides(operand.extent), s(result.size(), 0);
  std::size_t missing = result.size() - own.size();
  for (std::size_t d = 0; d < own.size(); ++d)
    if (operand.extent[d] == result[missing + d]) s[missing + d] = own[d];
  return s;
}

// The loops of a tensor and of what remains of it without the dimensions `dims`, which have stride 0 there.
inline std::vector<Loop<2>> reduction_loops(const Dims& full, const Integers& dims) {
  Dims own = strides(full);
  std::vector<Loop<2>> loops(full.size());
  std::int64_t kept = 1;
  for (std::size_t d = full.size(); d-- > 0;) {
    bool reduced = std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
    loops[d] = {full[d], {own[d], reduced ? 0 : kept}};
    if (!reduced) kept *= full[d];
  }
  return collapse(loops);
}

// The loops of the part `box` of two blocks, both of which must hold it (CHECKed), and where it begins in each.
struct BoxLoops {
  std::vector<Loop<2>> loops;
  std::array<std::int64_t, 2> first{};
};
inline BoxLoops box_loops(const Box& target, const Box& source, const Box& box) {
  UNITY_CHECK(target.contains(box) && source.contains(box), "block {} is not inside {} and {}", to_string(box),
              to_string(target), to_string(source));
  Dims t = strides(target.extent), s = strides(source.extent);
  BoxLoops r;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    r.loops.push_back({box.extent[d], {t[d], s[d]}});
    r.first[0] += (box.offset[d] - target.offset[d]) * t[d];
    r.first[1] += (box.offset[d] - source.offset[d]) * s[d];
  }
  return r;
}

}  // namespace unity
