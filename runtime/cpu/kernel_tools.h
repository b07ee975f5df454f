// For kernel sources only: dispatch on the element type, reproducible sums, and loops over strided blocks, shared out
// to the threads of the device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/ops/operator.h"
#include "runtime/cpu/threads.h"
#include "runtime/strided.h"

namespace unity::cpu {

// Calls body.template operator()<T>() for a real element type: float or double.
template <class Body>
void dispatch_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f64:
      return body.template operator()<double>();
    default:
      UNITY_CHECK(false, "cpu kernels have no element type {}", to_string(dtype));
  }
}
// The same for that of the call's first result.
template <class Body>
void dispatch(const OpCall& call, Body&& body) {
  dispatch_type(call.outputs[0].dtype, std::forward<Body>(body));
}

// Sum of f(0) .. f(n - 1) in eight interleaved partial sums: vectorises, and the order is always the same.
// GCC 12 unrolls the lanes before it vectorises, and then loads under a wrong mask where f loads conditionally
// (c ? x[i] : 0); hence the pragma.
template <class T, class F>
T lane_sum(std::int64_t n, F&& f) {
  constexpr int kLanes = 8;
  std::array<T, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma GCC unroll 1
    for (int l = 0; l < kLanes; ++l) lanes[static_cast<std::size_t>(l)] += f(i + l);
  T sum = 0;
  for (; i < n; ++i) sum += f(i);
  for (T lane : lanes) sum += lane;
  return sum;
}

// max(0, y); NaN stays.
template <class T>
T relu_of(T y) {
  return y <= 0 ? T(0) : y;
}

// The larger of two; NaN where one is NaN.
template <class T>
T larger(T x, T y) {
  return x > y || x != x ? x : y;
}

// Whether x comes before the best so far, among those of which the largest is wanted; NaN counts as larger than all.
template <class T>
bool wins(T x, T best) {
  return x > best || (x != x && best == best);
}

// The largest of f(0) .. f(n - 1), n > 0, as `larger` has it of two.
template <class T, class F, class Larger>
T lane_max(std::int64_t n, F&& f, Larger&& larger) {
  constexpr int kLanes = 16;
  std::array<T, kLanes> lanes;
  lanes.fill(f(0));
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma GCC unroll 1
    for (int l = 0; l < kLanes; ++l) {
      T v = f(i + l);
      T& lane = lanes[static_cast<std::size_t>(l)];
      lane = larger(v, lane);
    }
  T max = lanes[0];
  for (; i < n; ++i) max = larger(f(i), max);
  for (T lane : lanes) max = larger(lane, max);
  return max;
}
// NaN may be passed over.
template <class T, class F>
T lane_max(std::int64_t n, F&& f) {
  return lane_max<T>(n, f, [](T x, T y) { return x > y ? x : y; });
}

// Elements below which a second thread costs more than it saves.
constexpr std::int64_t kGrain = 1 << 14;

// y = max(0, y).
template <class T>
void relu_in_place(T* y, std::int64_t n) {
  parallel_for(n, kGrain, [y](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = relu_of(y[i]);
  });
}

// Calls row(r) for each of n rows of `length` elements, in parallel.
template <class Row>
void for_each_row(std::int64_t n, std::int64_t length, Row&& row) {
  parallel_for(n, kGrain / std::max<std::int64_t>(length, 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) row(r);
  });
}

// Calls inner(positions) for every index of all loops but the innermost, in row-major order.
template <std::size_t N, class Inner>
void for_each_outer(const std::vector<Loop<N>>& loops, Inner&& inner, std::array<std::int64_t, N> at = {}) {
  std::size_t outer = loops.size() - 1;
  std::vector<std::int64_t> index(outer, 0);
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

// As for_each_outer, with one loop shared out to threads: calls inner(positions, length of the innermost loop). The
// loop is the longest of those that `may_split`.
template <std::size_t N, class Inner, class MaySplit>
void parallel_outer(const std::vector<Loop<N>>& loops, Inner&& inner, MaySplit&& may_split) {
  std::size_t split = loops.size();
  std::int64_t total = 1;
  for (std::size_t d = 0; d < loops.size(); ++d) {
    total *= loops[d].length;
    if (may_split(loops[d]) && (split == loops.size() || loops[d].length > loops[split].length)) split = d;
  }
  if (split == loops.size() || total < 2 * kGrain || threads() == 1)
    return for_each_outer(loops, [&](const std::array<std::int64_t, N>& at) { inner(at, loops.back().length); });
  std::int64_t length = loops[split].length;
  parallel_for(length, length * kGrain / total + 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Loop<N>> part = loops;
    part[split].length = end - begin;
    std::array<std::int64_t, N> first;
    for (std::size_t i = 0; i < N; ++i) first[i] = begin * loops[split].stride[i];
    for_each_outer(
        part, [&](const std::array<std::int64_t, N>& at) { inner(at, part.back().length); }, first);
  });
}
template <std::size_t N, class Inner>
void parallel_outer(const std::vector<Loop<N>>& loops, Inner&& inner) {
  parallel_outer(loops, inner, [](const Loop<N>&) { return true; });
}

}  // namespace unity::cpu
