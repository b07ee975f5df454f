// Going through rows at the speed of memory: neighbouring threads take neighbouring items, and every thread asks for
// several items before it uses the first, since one read under way at a time would leave most of the bandwidth unused.
#pragma once

#include <cstring>
#include <utility>

#include "core/ops/operator.h"
#include "runtime/cuda/launch.h"

#ifdef __CUDA_ARCH__
#define UNITY_UNROLL _Pragma("unroll")
#define UNITY_NO_UNROLL _Pragma("unroll 1")
#else
#define UNITY_UNROLL
#define UNITY_NO_UNROLL
#endif

namespace unity::cuda {

constexpr int kBatch = 4;     // reads under way
constexpr int kHeld = 8;      // items of a row that one thread holds in registers
constexpr int kWarpWork = 1;  // for for_each_group: what asks for groups of one warp

// The rows of a block: all dimensions but the last.
inline std::int64_t rows_of(const Operand& x) { return x.extent.back() ? x.elements() / x.extent.back() : 0; }

// use(j, load(j)) for this thread's share of the items 0 .. n - 1.
template <class Load, class Use>
UNITY_OF_GROUP void each_item(const Group& group, std::int64_t n, Load load, Use use) {
  using Item = decltype(load(std::int64_t{0}));
  std::int64_t step = group.size();
  for (std::int64_t first = group.rank(); first < n; first += kBatch * step) {
    Item items[kBatch];
    UNITY_UNROLL
    for (int b = 0; b < kBatch; ++b) {
      std::int64_t j = first + b * step;
      items[b] = load(j < n ? j : n - 1);
    }
    UNITY_UNROLL
    for (int b = 0; b < kBatch; ++b)
      if (first + b * step < n) use(first + b * step, items[b]);
  }
}

// For for_each_group: groups large enough to hold rows of up to 4096 items.
inline std::int64_t row_work(std::int64_t n) { return 2 * n; }

// This thread's share of a row of n items, load(0) .. load(n - 1). It is held in registers if it fits; else each pass
// reads it again (from cache, mostly).
template <class Load, int kItems = kHeld>
class Row {
 public:
  using Item = decltype(std::declval<Load>()(std::int64_t{0}));

  UNITY_OF_GROUP Row(const Group& group, std::int64_t n, Load load)
      : group_(group), n_(n), load_(load), held_(n <= static_cast<std::int64_t>(kItems) * group.size()) {
    if (!held_) return;
    int step = group.size(), length = static_cast<int>(n);
    UNITY_UNROLL
    for (int first = 0; first < kItems; first += kBatch) {
      if (first * step >= length) continue;
      UNITY_UNROLL
      for (int b = first; b < first + kBatch && b < kItems; ++b) {
        int j = group.rank() + b * step;
        items_[b] = load(j < length ? j : length - 1);
      }
    }
  }
  UNITY_OF_GROUP bool held() const { return held_; }

  // use(j, item, slot): the slot is a constant that tells the items of a held row apart.
  template <class Use>
  UNITY_OF_GROUP void each(Use use) const {
    if (held_) {
      UNITY_UNROLL
      for (int i = 0; i < kItems; ++i) {
        int j = group_.rank() + i * group_.size();
        if (j < static_cast<int>(n_)) use(j, items_[i], i);
      }
    } else {
      each_item(group_, n_, load_, [&](std::int64_t j, const Item& item) { use(j, item, 0); });
    }
  }
  // The sum over the whole row of f(item); all threads get it.
  template <class F>
  UNITY_OF_GROUP auto sum(F f) const {
    decltype(f(std::declval<const Item&>())) s = 0;
    each([&](std::int64_t, const Item& item, int) { s += f(item); });
    return group_.sum(s);
  }

 private:
  const Group& group_;
  std::int64_t n_;
  Load load_;
  bool held_;
  Item items_[kItems];
};

// With as many items in registers as one thread may hold.
template <int kItems, class Load>
UNITY_OF_GROUP Row<Load, kItems> row_of(const Group& group, std::int64_t n, Load load) {
  return Row<Load, kItems>(group, n, load);
}

// Fills a block with zeros.
inline void set_zero(Stream stream, const Operand& x) {
  auto bytes = static_cast<std::size_t>(x.elements() * size_of(x.dtype));
#ifndef UNITY_CUDA_EMULATED
  UNITY_CUDA_CHECK(cudaMemsetAsync(x.data, 0, bytes, stream));
#else
  emulate(stream, [bytes, to = x.data] { std::memset(to, 0, bytes); });
#endif
}

// For every row r of n, and every item j of its `length`: use(state, r, j, load(state, r, j)) with state = prepare(r).
template <class Prepare, class Load, class Use>
void for_each_in_rows(Stream stream, std::int64_t n, std::int64_t length, Prepare prepare, Load load, Use use) {
  if (length >= 32)
    for_each_group(
        stream, n, length, UNITY_LAMBDA(std::int64_t r, const Group& group) {
          auto state = prepare(r);
          each_item(
              group, length, [&](std::int64_t j) { return load(state, r, j); },
              [&](std::int64_t j, auto item) { use(state, r, j, item); });
        });
  else  // too short for a warp
    for_each(
        stream, n * length, UNITY_LAMBDA(std::int64_t i) {
          std::int64_t r = i / length, j = i % length;
          auto state = prepare(r);
          use(state, r, j, load(state, r, j));
        });
}

// How many groups, each of which goes through `work` items at a time, share out the rows of a block when each keeps its
// own sums over them: as many as fill a large GPU.
inline std::int64_t row_workers(std::int64_t rows, std::int64_t work) {
  std::int64_t most = work <= 256 ? 2112 : work <= 1024 ? 1056 : work <= 4096 ? 528 : 264;
  return std::min(rows, most);
}

// out[j] = sum over p < parts of partial[p * columns + j], always in the same order.
template <class V, class Array>
void sum_parts(Stream stream, const V* partial, std::int64_t parts, std::int64_t columns, Array out) {
  for_each_group(
      stream, columns, parts, UNITY_LAMBDA(std::int64_t j, const Group& group) {
        V sum = 0;
        each_item(
            group, parts, [&](std::int64_t p) { return partial[p * columns + j]; },
            [&](std::int64_t, V x) { sum += x; });
        sum = group.sum(sum);
        if (group.rank() == 0) out.store(j, sum);
      });
}

}  // namespace unity::cuda
