// Reductions over some loops of a nest, reproducible: the order of a sum depends on sizes alone. Few results are split
// in parts, reduced side by side and then put together, so that the device is busy.
#pragma once

#include <limits>
#include <utility>

#include "runtime/cuda/call.h"
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
  // Threads wanted: a quarter of a million, with at least 32 elements each.
  std::int64_t n = reduced.iterations(), wanted = rows ? 1024 : 262144, least = rows ? 4096 : 32;
  parts = std::max<std::int64_t>(1, std::min(wanted / std::max<std::int64_t>(results(), 1), n / least));
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
          T x = M::start();
          for (std::int64_t r = begin + group.rank(); r < end; r += group.size())
            x = M::join(x, element(o, at + reduced.locate(r)[0]));
          x = M::across(group, x);
          if (group.rank() == 0) store(o, p, x);
        });
  else
    for_each(
        stream, results * parts, UNITY_LAMBDA(std::int64_t i) {
          std::int64_t o = i % results, p = i / results, begin = p * n / parts, end = (p + 1) * n / parts;
          std::int64_t at = kept.locate(o)[0];
          T x = M::start();
          for (std::int64_t r = begin; r < end; ++r) x = M::join(x, element(o, at + reduced.locate(r)[0]));
          store(o, p, x);
        });
  if (parts == 1) return;
  for_each_group(
      stream, results, parts, UNITY_LAMBDA(std::int64_t o, const Group& group) {
        T x = M::start();
        for (std::int64_t p = group.rank(); p < parts; p += group.size()) x = M::join(x, partial[p * results + o]);
        x = M::across(group, x);
        if (group.rank() == 0) finish(o, x);
      });
}

}  // namespace unity::cuda
