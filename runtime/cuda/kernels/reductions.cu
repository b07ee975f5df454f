// Sums, means, maxima and positions of maxima along dimensions.
#include "core/ops/reduce_sum.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/reduction.h"

namespace unity::cuda {

namespace {

Reduction reduction_of(const Call& c) {
  return Reduction(reduction_loops(c.inputs[0].extent, ints_attribute(c.attributes, 0)));
}

template <class R>
void sum(const Call& c, std::int64_t divisor) {
  using T = typename R::Value;
  Reduction how = reduction_of(c);
  void* scratch = how.scratch() ? c.scratch(how.scratch() * static_cast<std::int64_t>(sizeof(T))) : nullptr;
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.outputs[0]);
  auto n = static_cast<T>(divisor);
  reduce_array<SumOf<T>>(
      c.stream, how, scratch, x, UNITY_LAMBDA(std::int64_t o, T s) { y.store(o, s / n); });
}

}  // namespace

template <class R>
void reduce_sum_of(const Call& c) {
  sum<R>(c, 1);
}
UNITY_CUDA_KERNEL(reduce_sum)

template <class R>
void reduce_mean_of(const Call& c) {
  sum<R>(c, reduced_elements(c.attributes, c.inputs[0].global));
}
UNITY_CUDA_KERNEL(reduce_mean)

template <class R>
void reduce_max_of(const Call& c) {
  using T = typename R::Value;
  Reduction how = reduction_of(c);
  void* scratch = how.scratch() ? c.scratch(how.scratch() * static_cast<std::int64_t>(sizeof(T))) : nullptr;
  auto x = reals<R>(c.inputs[0]), y = reals<R>(c.outputs[0]);
  reduce_array<MaxOf<T>>(
      c.stream, how, scratch, x, UNITY_LAMBDA(std::int64_t o, T m) { y.store(o, m); });
}
UNITY_CUDA_KERNEL(reduce_max)

// The gradient goes in equal shares to the elements that attain the maximum. One held as f32 attains a maximum held as
// bf16 when it rounds to it.
template <class R>
void reduce_max_gradient_of(const Call& c) {
  using T = typename R::Value;
  const Operand &x = c.inputs[0], &y = c.inputs[1];
  Reduction how = reduction_of(c);
  auto* scratch = static_cast<T*>(c.scratch((how.scratch() + how.results()) * static_cast<std::int64_t>(sizeof(T))));
  T* ties = scratch + how.scratch();
  bool rounded = y.dtype == DType::bf16 && x.dtype != DType::bf16;
  auto attains = UNITY_LAMBDA(T a, T m) {
    return (rounded ? static_cast<T>(to_float(to_bfloat16(static_cast<float>(a)))) : a) == m || (a != a && m != m);
  };
  auto xs = reals<R>(x), ys = reals<R>(y);
  reduce<SumOf<T>>(
      c.stream, how, scratch,
      UNITY_LAMBDA(std::int64_t o, std::int64_t i) { return attains(xs.load(i), ys.load(o)) ? T(1) : T(0); },
      UNITY_LAMBDA(std::int64_t o, T n) { ties[o] = n; });
  std::vector<Loop<5>> loops;
  for (const Loop<2>& loop : reduction_loops(x.extent, ints_attribute(c.attributes, 0)))
    loops.push_back({loop.length, {loop.stride[0], loop.stride[0], loop.stride[1], loop.stride[1], loop.stride[1]}});
  map(
      c.stream, loops, UNITY_LAMBDA(T a, T m, T dm, T n) { return attains(a, m) ? dm / n : T(0); },
      reals<R>(c.outputs[0]), xs, ys, reals<R>(c.inputs[2]), Dense<T>{ties});
}
UNITY_CUDA_KERNEL(reduce_max_gradient)

// Along the last dimension a group of threads looks for each maximum, else one thread: its neighbours have the others.
template <class R>
void argmax_of(const Call& c) {
  using T = typename R::Value;
  const Operand &x = c.inputs[0], &y = c.outputs[0];
  auto dim = static_cast<std::size_t>(int_attribute(c.attributes, 0));
  std::int64_t n = x.extent[dim], inner = 1;
  for (std::size_t d = dim + 1; d < x.extent.size(); ++d) inner *= x.extent[d];
  auto xs = reals<R>(x);
  auto ys = indices(y);
  // The first position of the largest, or of a NaN, of every `step`-th element from `first`, of those n from `begin`.
  auto best_of = UNITY_LAMBDA(std::int64_t begin, std::int64_t first, std::int64_t step) {
    std::int64_t best = first;
    T largest = xs.load(begin + first * inner);
    for (std::int64_t i = first + step; i < n; i += step) {
      T v = xs.load(begin + i * inner);
      if (v > largest || (v != v && largest == largest)) largest = v, best = i;
    }
    return best;
  };
  if (inner != 1)
    return for_each(
        c.stream, y.elements(), UNITY_LAMBDA(std::int64_t o) {
          ys.store(o, static_cast<std::int32_t>(best_of(o / inner * n * inner + o % inner, 0, 1)));
        });
  for_each_group(
      c.stream, y.elements(), n, UNITY_LAMBDA(std::int64_t o, const Group& group) {
        bool has = group.rank() < n;
        std::int64_t best = has ? best_of(o * n, group.rank(), group.size()) : n;
        T largest = group.max(has ? xs.load(o * n + best) : -std::numeric_limits<T>::infinity());
        // The first of the threads' positions where it is attained: the largest of their negatives.
        T mine = has ? xs.load(o * n + best) : largest;
        bool attained = has && (mine == largest || (mine != mine && largest != largest));
        auto first = -group.max(-static_cast<std::int32_t>(attained ? best : n));
        if (group.rank() == 0) ys.store(o, first < n ? first : 0);
      });
}
UNITY_CUDA_KERNEL(argmax)

}  // namespace unity::cuda
