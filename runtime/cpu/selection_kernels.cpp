// Parts of tensors and choices among elements: slice, pad, maxima, expert routing; and the loss on single logits.
#include <algorithm>
#include <cmath>

#include "core/ops/reduce_sum.h"
#include "core/ops/rows.h"
#include "core/ops/slice.h"
#include "runtime/cpu/blocks.h"
#include "runtime/cpu/exponential.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {

void slice_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Box box = sliced_box(call), all = whole_box(x.extent);
  // Both blocks in the coordinates of x's block.
  copy_block(y.data, box, x.data, all, box, x.dtype);
}

void pad_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  dispatch(call, [&]<class T>() {
    T value = static_cast<T>(real_attribute(call.attributes, 2));
    parallel_for(y.elements(), kGrain,
                 [&](std::int64_t begin, std::int64_t end) { std::fill(y.as<T>() + begin, y.as<T>() + end, value); });
  });
  Box box = padded_box(call);
  copy_block(y.data, whole_box(y.extent), x.data, box, box, y.dtype);
}

void reduce_max_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  std::vector<Loop<2>> loops = reduction_loops(x.extent, ints_attribute(call.attributes, 0));
  auto [n, stride] = loops.back();
  dispatch(call, [&, n = n, step = stride[1]]<class T>() {
    std::fill_n(y.as<T>(), y.elements(), -std::numeric_limits<T>::infinity());
    for_each_outer(loops, [&](const std::array<std::int64_t, 2>& at) {
      const T* from = x.as<T>() + at[0];
      T* to = y.as<T>() + at[1];
      if (step == 0)
        *to = larger(*to, lane_max<T>(
                              n, [&](std::int64_t i) { return from[i]; }, [](T a, T b) { return larger(a, b); }));
      else
        for (std::int64_t i = 0; i < n; ++i) to[i] = larger(from[i], to[i]);
    });
  });
}

void reduce_max_gradient_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.inputs[1];
  std::vector<Loop<2>> loops = reduction_loops(x.extent, ints_attribute(call.attributes, 0));
  auto [n, stride] = loops.back();
  dispatch(call, [&, n = n, step = stride[1]]<class T>() {
    auto attains = [](T of, T largest) { return of == largest || (of != of && largest != largest); };
    std::vector<T> ties(static_cast<std::size_t>(y.elements()), T(0));
    for_each_outer(loops, [&](const std::array<std::int64_t, 2>& at) {
      for (std::int64_t i = 0; i < n; ++i)
        ties[static_cast<std::size_t>(at[1] + i * step)] += attains(x.as<T>()[at[0] + i], y.as<T>()[at[1] + i * step]);
    });
    for_each_outer(loops, [&](const std::array<std::int64_t, 2>& at) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t o = at[1] + i * step;
        call.outputs[0].as<T>()[at[0] + i] = attains(x.as<T>()[at[0] + i], y.as<T>()[o])
                                                 ? call.inputs[2].as<T>()[o] / ties[static_cast<std::size_t>(o)]
                                                 : T(0);
      }
    });
  });
}

void argmax_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  auto dim = static_cast<std::size_t>(int_attribute(call.attributes, 0));
  std::int64_t n = x.extent[dim], inner = 1;
  for (std::size_t d = dim + 1; d < x.extent.size(); ++d) inner *= x.extent[d];
  dispatch_type(x.dtype, [&]<class T>() {
    for_each_row(y.elements(), n, [&](std::int64_t o) {
      const T* first = x.as<T>() + o / inner * n * inner + o % inner;
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < n; ++i)
        if (wins(first[i * inner], first[best * inner])) best = i;
      y.as<std::int32_t>()[o] = static_cast<std::int32_t>(best);
    });
  });
}

void top1_dispatch_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  std::int64_t tokens = x.extent[1], experts = x.extent[2], capacity = y.extent[3];
  dispatch(call, [&]<class T>() {
    for_each_row(x.extent[0], tokens * experts * capacity, [&](std::int64_t b) {
      std::fill_n(y.as<T>() + b * tokens * experts * capacity, tokens * experts * capacity, T(0));
      std::vector<std::int64_t> taken(static_cast<std::size_t>(experts), 0);
      for (std::int64_t t = 0; t < tokens; ++t) {
        const T* gates = x.as<T>() + (b * tokens + t) * experts;
        std::int64_t best = std::max_element(gates, gates + experts) - gates;
        std::int64_t place = taken[static_cast<std::size_t>(best)]++;
        if (place < capacity) y.as<T>()[((b * tokens + t) * experts + best) * capacity + place] = T(1);
      }
    });
  });
}

void binary_cross_entropy_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  dispatch(call, [&]<class T>() {
    const T *logits = x.as<T>(), *targets = call.inputs[1].as<T>();
    double sum = lane_sum<double>(x.elements(), [&](std::int64_t i) {
      double a = static_cast<double>(logits[i]);
      return std::max(a, 0.0) - a * static_cast<double>(targets[i]) + std::log1p(std::exp(-std::abs(a)));
    });
    *call.outputs[0].as<T>() = static_cast<T>(sum / static_cast<double>(element_count(x.global)));
  });
}

void binary_cross_entropy_gradient_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  dispatch(call, [&]<class T>() {
    const T *logits = x.as<T>(), *targets = call.inputs[1].as<T>();
    T factor = *call.inputs[2].as<T>() / static_cast<T>(element_count(x.global));
    T* dx = call.outputs[0].as<T>();
    for (std::int64_t i = 0; i < x.elements(); ++i) dx[i] = (1 / (1 + exponential(-logits[i])) - targets[i]) * factor;
  });
}

}  // namespace unity::cpu
