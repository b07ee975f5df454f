#include "runtime/cpu/blocks.h"

#include <cstring>

#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

// Calls run(target position, source position, length) for the maximal contiguous runs of `box`, in row-major order.
template <class Run>
void for_each_run(const Box& target, const Box& source, const Box& box, Run&& run) {
  UNITY_CHECK(target.contains(box) && source.contains(box), "block {} is not inside {} and {}", to_string(box),
              to_string(target), to_string(source));
  if (box.empty()) return;
  Dims ts = strides(target.extent), ss = strides(source.extent);
  std::int64_t t = 0, s = 0;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    t += (box.offset[d] - target.offset[d]) * ts[d];
    s += (box.offset[d] - source.offset[d]) * ss[d];
  }
  // Trailing dimensions that are whole in both blocks join the run.
  std::size_t outer = box.rank();
  std::int64_t length = 1;
  while (outer > 0) {
    --outer;
    length *= box.extent[outer];
    if (box.extent[outer] != target.extent[outer] || box.extent[outer] != source.extent[outer]) break;
  }
  Dims index(outer, 0);
  for (;;) {
    run(t, s, length);
    std::size_t d = outer;
    for (;;) {
      if (d-- == 0) return;
      t += ts[d], s += ss[d];
      if (++index[d] < box.extent[d]) break;
      t -= ts[d] * box.extent[d], s -= ss[d] * box.extent[d];
      index[d] = 0;
    }
  }
}

template <class T>
void accumulate(T* target, const Box& target_box, const T* source, const Box& source_box, const Box& box) {
  for_each_run(target_box, source_box, box, [&](std::int64_t t, std::int64_t s, std::int64_t n) {
    parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      T* __restrict to = target + t;
      const T* __restrict from = source + s;
      for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
    });
  });
}

template <class T>
void combine_runs(T* __restrict to, const T* __restrict from, std::int64_t n, Monoid monoid) {
  if (monoid == Monoid::sum)
    for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = to[i] < from[i] || from[i] != from[i] ? from[i] : to[i];
}

}  // namespace

void copy_block(void* target, const Box& target_box, const void* source, const Box& source_box, const Box& box,
                DType dtype) {
  std::int64_t size = size_of(dtype);
  for_each_run(target_box, source_box, box, [&](std::int64_t t, std::int64_t s, std::int64_t n) {
    parallel_for(n, 2 * kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(static_cast<char*>(target) + (t + begin) * size,
                  static_cast<const char*>(source) + (s + begin) * size,
                  static_cast<std::size_t>((end - begin) * size));
    });
  });
}

void accumulate_block(void* target, const Box& target_box, const void* source, const Box& source_box, const Box& box,
                      DType dtype) {
  switch (dtype) {
    case DType::f32:
      return accumulate(static_cast<float*>(target), target_box, static_cast<const float*>(source), source_box, box);
    case DType::f64:
      return accumulate(static_cast<double*>(target), target_box, static_cast<const double*>(source), source_box, box);
    default:
      UNITY_CHECK(false, "accumulate_block: element type is {}, expected f32 or f64", to_string(dtype));
  }
}

void combine(void* to, const void* from, std::int64_t elements, DType dtype, Monoid monoid) {
  switch (dtype) {
    case DType::f32:
      return combine_runs(static_cast<float*>(to), static_cast<const float*>(from), elements, monoid);
    case DType::f64:
      return combine_runs(static_cast<double*>(to), static_cast<const double*>(from), elements, monoid);
    case DType::i32:
      return combine_runs(static_cast<std::int32_t*>(to), static_cast<const std::int32_t*>(from), elements, monoid);
    default:
      UNITY_CHECK(false, "combine: element type is {}, expected f32, f64 or i32", to_string(dtype));
  }
}

void zero_block(void* target, std::int64_t elements, DType dtype) {
  if (elements > 0) std::memset(target, 0, static_cast<std::size_t>(elements * size_of(dtype)));
}

}  // namespace unity::cpu
