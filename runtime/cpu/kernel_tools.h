// For kernel sources only: dispatch on the element type, reproducible sums, and loops over strided blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/ops/operator.h"

namespace unity::cpu {

// Calls body.template operator()<T>() for the element type of the call's first result: float or double.
template <class Body>
void dispatch(const OpCall& call, Body&& body) {
  switch (call.outputs[0].dtype) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f64:
      return body.template operator()<double>();
    default:
      UNITY_CHECK(false, "cpu kernels have no element type {}", to_string(call.outputs[0].dtype));
  }
}

// Sum of f(0) .. f(n - 1) in eight interleaved partial sums: vectorises, and the order is always the same.
template <class T, class F>
T lane_sum(std::int64_t n, F&& f) {
  constexpr int kLanes = 8;
  std::array<T, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[static_cast<std::size_t>(l)] += f(i + l);
  T sum = 0;
  for (; i < n; ++i) sum += f(i);
  for (T lane : lanes) sum += lane;
  return sum;
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

// Calls inner(positions) for every index of all loops but the innermost, in row-major order.
template <std::size_t N, class Inner>
void for_each_outer(const std::vector<Loop<N>>& loops, Inner&& inner) {
  std::size_t outer = loops.size() - 1;
  std::vector<std::int64_t> index(outer, 0);
  std::array<std::int64_t, N> at{};
  for (const Loop<N>& loop : loops)
    if (loop.length == 0) return;
  for (;;) {
    inner(at);
    std::size_t d = outer;
    for (;;) {
      if (d-- == 0) return;
      for (std::size_t i = 0; i < N; ++i) at[i] += loops[d].stride[i];
      if (++index[d] < loops[d].length) break;
      for (std::size_t i = 0; i < N; ++i) at[i] -= loops[d].stride[i] * loops[d].length;
      index[d] = 0;
    }
  }
}

// Row-major strides of a block, in elements.
inline Dims strides(const Dims& extent) {
  Dims s(extent.size(), 1);
  for (std::size_t d = extent.size(); d-- > 1;) s[d - 1] = s[d] * extent[d];
  return s;
}

}  // namespace unity::cpu
