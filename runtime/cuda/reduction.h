// Reductions over some loops of a nest, reproducible: the order of a sum depends on sizes alone. Few results are split
// in parts, reduced side by side and then put together, so that the device is busy.
#pragma once

#include <limits>
#include <utility>

#include "runtime/cuda/call.h"
#include "runtime/cuda/rows.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {

template <class T>
struct SumOf {
  using Value = T;
  UNITY_DEVICE static T start() { return 0; }
  UNITY_DEVICE static T join(T a, T b) { return a + b; }
  UNITY_OF_GROUP static T across(const Group& group, T x) { return group.sum(x); }
};
// NaN where one is NaN.
template <class T>
struct MaxOf {
  using Value = T;
  UNITY_DEVICE static T start() { return -std::numeric_limits<T>::infinity(); }
  UNITY_DEVICE static T join(T a, T b) { return a > b || a != a ? a : b; }
  UNITY_OF_GROUP static T across(const Group& group, T x) { return group.max(x); }
};

// Which elements of an operand make up each result.
struct Reduction {
  Walk<1> kept, reduced;  // from the index of a result, and of one of its elements, to their part of the position
  bool rows = true;       // neighbours belong to one result, which a group of threads reduces; else a thread each
  bool pairs = false;     // not rows, and a thread may reduce two neighbouring results
  std::int64_t parts = 1;

  // Block 1 of the loops walks the results, with stride 0 in those that are reduced; block 0 the operand.
  explicit Reduction(const std::vector<Loop<2>>& loops);
  // Of n neighbours to one result.
  explicit Reduction(std::int64_t n) : Reduction(std::vector<Loop<2>>{{n, {1, 0}}}) {}

  std::int64_t results() const { return kept.iterations(); }
  // For what `reduce` needs between its two stages, in elements of the type that it reduces in.
  std::int64_t scratch() const { return parts > 1 ? parts * results() : 0; }
};

inline Reduction::Reduction(const std::vector<Loop<2>>& loops) {
  std::vector<Loop<1>> outer, inner;
  for (const Loop<2>& loop : loops) {
    bool is_kept = loop.stride[1] != 0;
    if (loop.length != 1) rows = !is_kept;
    (is_kept ? outer : inner).push_back({loop.length, {loop.stride[0]}});
  }
  kept = Walk<1>(outer), reduced = Walk<1>(inner);
  pairs = !rows && kept.inner_stride(0) == 1 && kept.length(kept.rank() - 1) % 2 == 0;
  for (int d = 0; d + 1 < kept.rank(); ++d) pairs = pairs && kept.stride(d, 0) % 2 == 0;
  for (int d = 0; d < reduced.rank(); ++d) pairs = pairs && reduced.stride(d, 0) % 2 == 0;
  // As many threads as have enough reads under way for a large GPU, with at least 32 elements each.
  std::int64_t n = reduced.iterations(), wanted = rows ? 1024 : 131072, least = rows ? 4096 : 32;
  std::int64_t takers = std::max<std::int64_t>(pairs ? results() / 2 : results(), 1);
  parts = std::max<std::int64_t>(1, std::min(wanted / takers, n / least));
}

// use(r, item(r)) for r in [begin, end) in order, with eight reads under way.
template <class Item, class Use>
UNITY_DEVICE void each_in_order(std::int64_t begin, std::int64_t end, Item item, Use use) {
  constexpr int kUnderWay = 8;
  decltype(item(begin)) items[kUnderWay];
  UNITY_NO_UNROLL
  for (; begin + kUnderWay <= end; begin += kUnderWay) {
    UNITY_UNROLL
    for (int b = 0; b < kUnderWay; ++b) items[b] = item(begin + b);
    UNITY_UNROLL
    for (int b = 0; b < kUnderWay; ++b) use(items[b]);
  }
  if (begin >= end) return;
  UNITY_UNROLL
  for (int b = 0; b < kUnderWay; ++b) items[b] = item(begin + b < end ? begin + b : end - 1);
  UNITY_UNROLL
  for (int b = 0; b < kUnderWay; ++b)
    if (begin + b < end) use(items[b]);
}

// The part p of a reduction of several results at once, of which those from o begin at `at`: join(what load(position)
// gives) for each of its elements.
template <class Load, class Join>
UNITY_DEVICE void reduce_part(const Walk<1>& reduced, std::int64_t begin, std::int64_t end, std::int64_t at, Load load,
                              Join join) {
  if (reduced.rank() == 1) {
    const std::int64_t stride = reduced.stride(0, 0);
    each_in_order(
        begin, end, [&](std::int64_t r) { return load(at + r * stride); }, join);
  } else {
    each_in_order(
        begin, end, [&](std::int64_t r) { return load(at + reduced.locate(r)[0]); }, join);
  }
}

// The second stage: finish(o, the join of partial[p * results + o] over the parts p).
template <class M, class Finish>
void reduce_parts(Stream stream, const typename M::Value* partial, std::int64_t parts, std::int64_t results,
                  Finish finish) {
  using T = typename M::Value;
  if (parts <= 16)  // a thread each: neighbours read neighbours
    return for_each(
        stream, results, UNITY_LAMBDA(std::int64_t o) {
          T x = M::start();
          each_in_order(
              0, parts, [&](std::int64_t p) { return partial[p * results + o]; }, [&](T y) { x = M::join(x, y); });
          finish(o, x);
        });
  for_each_group(
      stream, results, parts, UNITY_LAMBDA(std::int64_t o, const Group& group) {
        T x = M::start();
        each_item(
            group, parts, [&](std::int64_t p) { return partial[p * results + o]; },
            [&](std::int64_t, T y) { x = M::join(x, y); });
        x = M::across(group, x);
        if (group.rank() == 0) finish(o, x);
      });
}

// finish(o, the reduction of element(o, position) over the elements of result o), for every result.
template <class M, class Element, class Finish>
void reduce(Stream stream, const Reduction& how, void* scratch, Element element, Finish finish) {
  using T = typename M::Value;
  const std::int64_t n = how.reduced.iterations(), results = how.results(), parts = how.parts;
  const Walk<1> kept = how.kept, reduced = how.reduced;
  T* partial = static_cast<T*>(scratch);
  // The part p of result o goes to o itself when it is the only one.
  auto store = UNITY_LAMBDA(std::int64_t o, std::int64_t p, T x) {
    if (parts == 1)
      finish(o, x);
    else
      partial[p * results + o] = x;
  };
  if (how.rows)
    for_each_group(
        stream, results * parts, n / parts, UNITY_LAMBDA(std::int64_t i, const Group& group) {
          std::int64_t o = i / parts, p = i % parts, begin = p * n / parts, end = (p + 1) * n / parts;
          std::int64_t at = kept.locate(o)[0];
          const bool dense = reduced.rank() == 1;
          const std::int64_t stride = reduced.stride(0, 0);
          T x = M::start();
          each_item(
              group, end - begin,
              [&](std::int64_t r) {
                return element(o, at + (dense ? (begin + r) * stride : reduced.locate(begin + r)[0]));
              },
              [&](std::int64_t, T y) { x = M::join(x, y); });
          x = M::across(group, x);
          if (group.rank() == 0) store(o, p, x);
        });
  else
    for_each(
        stream, results * parts, UNITY_LAMBDA(std::int64_t i) {
          std::int64_t o = i % results, p = i / results;
          T x = M::start();
          reduce_part(
              reduced, p * n / parts, (p + 1) * n / parts, kept.locate(o)[0],
              [&](std::int64_t at) { return element(o, at); }, [&](T y) { x = M::join(x, y); });
          store(o, p, x);
        });
  if (parts > 1) reduce_parts<M>(stream, partial, parts, results, finish);
}

// The same of the elements of an array: those of two neighbouring results at once where that goes. The order is the
// same.
template <class M, class Array, class Finish>
void reduce_array(Stream stream, const Reduction& how, void* scratch, Array x, Finish finish) {
  using T = typename M::Value;
  const std::int64_t n = how.reduced.iterations(), results = how.results(), parts = how.parts;
  if (!how.pairs || !x.template aligned_for_several<2>())
    return reduce<M>(
        stream, how, scratch, UNITY_LAMBDA(std::int64_t, std::int64_t at) { return static_cast<T>(x.load(at)); },
        finish);
  const Walk<1> kept = how.kept, reduced = how.reduced;
  T* partial = static_cast<T*>(scratch);
  for_each(
      stream, results / 2 * parts, UNITY_LAMBDA(std::int64_t i) {
        std::int64_t pair = results / 2, o = i % pair * 2, p = i / pair;
        T sums[2] = {M::start(), M::start()};
        reduce_part(
            reduced, p * n / parts, (p + 1) * n / parts, kept.locate(o)[0],
            [&](std::int64_t at) { return x.template load_packed<2>(at); },
            [&](const auto& packed) {
              auto two = x.template unpack<2>(packed);
              sums[0] = M::join(sums[0], static_cast<T>(two.v[0]));
              sums[1] = M::join(sums[1], static_cast<T>(two.v[1]));
            });
        for (int k = 0; k < 2; ++k)
          if (parts == 1)
            finish(o + k, sums[k]);
          else
            partial[p * results + o + k] = sums[k];
      });
  if (parts > 1) reduce_parts<M>(stream, partial, parts, results, finish);
}

}  // namespace unity::cuda
