#include <cstring>
#include <numeric>

#include "core/ops/concat.h"
#include "core/ops/embedding.h"
#include "core/ops/reduce_sum.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

std::size_t bytes(const Operand& x) { return static_cast<std::size_t>(x.elements() * size_of(x.dtype)); }

template <class T>
void sum(const OpCall& call, double divisor) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  std::vector<Loop<2>> loops = reduction_loops(x.extent, ints_attribute(call.attributes, 0));
  std::fill_n(y.as<T>(), y.elements(), T(0));
  bool reduced = loops.back().stride[1] == 0;
  // Threads share a loop that is kept, so that each result is one thread's, summed in one order.
  parallel_outer(
      loops,
      [&](const std::array<std::int64_t, 2>& at, std::int64_t n) {
        const T* from = x.as<T>() + at[0];
        T* to = y.as<T>() + at[1];
        if (reduced)
          *to += lane_sum<T>(n, [&](std::int64_t i) { return from[i]; });
        else
          for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
      },
      [](const Loop<2>& loop) { return loop.stride[1] != 0; });
  if (divisor != 1)
    for (std::int64_t i = 0; i < y.elements(); ++i) y.as<T>()[i] /= static_cast<T>(divisor);
}

template <class T>
void permute(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  const auto& perm = ints_attribute(call.attributes, 0);
  Dims sx = strides(x.extent), sy = strides(y.extent);
  std::vector<Loop<2>> loops;
  for (std::size_t d = 0; d < perm.size(); ++d)
    loops.push_back({y.extent[d], {sx[static_cast<std::size_t>(perm[d])], sy[d]}});
  loops = collapse(loops);
  std::int64_t step = loops.back().stride[0];
  parallel_outer(loops, [&](const std::array<std::int64_t, 2>& at, std::int64_t n) {
    const T* from = x.as<T>() + at[0];
    T* to = y.as<T>() + at[1];
    if (step == 1)
      std::copy_n(from, n, to);
    else
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  });
}

}  // namespace

void transpose_kernel(const OpCall& call) {
  if (size_of(call.outputs[0].dtype) == 4)
    permute<std::uint32_t>(call);
  else
    permute<std::uint64_t>(call);
}

void reshape_kernel(const OpCall& call) {
  auto* to = static_cast<char*>(call.outputs[0].data);
  const auto* from = static_cast<const char*>(call.inputs[0].data);
  parallel_for(static_cast<std::int64_t>(bytes(call.outputs[0])), 8 * kGrain,
               [=](std::int64_t begin, std::int64_t end) {
                 std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
               });
}

void concat_kernel(const OpCall& call) {
  ConcatLayout layout =
      concat_layout(int_attribute(call.attributes, 0), int_attribute(call.attributes, 1), call.inputs);
  std::int64_t size = size_of(call.outputs[0].dtype);
  std::int64_t length = std::accumulate(layout.lengths.begin(), layout.lengths.end(), std::int64_t{0});
  for_each_row(layout.outer, length, [&](std::int64_t o) {
    char* out = call.outputs[0].as<char>() + o * length * size;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      std::int64_t run = layout.lengths[i] * size;
      std::memcpy(out, call.inputs[i].as<char>() + o * run, static_cast<std::size_t>(run));
      out += run;
    }
  });
}

void split_kernel(const OpCall& call) {
  ConcatLayout layout =
      concat_layout(int_attribute(call.attributes, 0), int_attribute(call.attributes, 2), call.outputs);
  std::int64_t size = size_of(call.outputs[0].dtype);
  std::int64_t length = std::accumulate(layout.lengths.begin(), layout.lengths.end(), std::int64_t{0});
  for_each_row(layout.outer, length, [&](std::int64_t o) {
    const char* in = call.inputs[0].as<char>() + o * length * size;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      std::int64_t run = layout.lengths[i] * size;
      std::memcpy(call.outputs[i].as<char>() + o * run, in, static_cast<std::size_t>(run));
      in += run;
    }
  });
}

void reduce_sum_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { sum<T>(call, 1); });
}

void reduce_mean_kernel(const OpCall& call) {
  double n = static_cast<double>(reduced_elements(call.attributes, call.inputs[0].global));
  dispatch(call, [&]<class T>() { sum<T>(call, n); });
}

void broadcast_like_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  std::vector<Loop<2>> loops = reduction_loops(y.extent, ints_attribute(call.attributes, 0));
  bool repeated = loops.back().stride[1] == 0;
  dispatch(call, [&]<class T>() {
    parallel_outer(loops, [&](const std::array<std::int64_t, 2>& at, std::int64_t n) {
      const T* from = x.as<T>() + at[1];
      T* to = y.as<T>() + at[0];
      if (repeated)
        std::fill_n(to, n, *from);
      else
        std::copy_n(from, n, to);
    });
  });
}

void embedding_kernel(const OpCall& call) {
  const Operand &ids = call.inputs[0], &table = call.inputs[1];
  std::int64_t h = table.extent[1];
  dispatch(call, [&]<class T>() {
    for_each_row(ids.elements(), h, [&](std::int64_t i) {
      std::int64_t row = embedding_row(table, ids.as<std::int32_t>()[i]);
      T* y = call.outputs[0].as<T>() + i * h;
      if (row < 0)
        std::fill_n(y, h, T(0));
      else
        std::copy_n(table.as<T>() + row * h, h, y);
    });
  });
}

void embedding_gradient_kernel(const OpCall& call) {
  const Operand &ids = call.inputs[0], &out = call.outputs[0];
  std::int64_t h = out.extent[1];
  dispatch(call, [&]<class T>() {
    parallel_for(out.elements(), kGrain,
                 [&](std::int64_t begin, std::int64_t end) { std::fill_n(out.as<T>() + begin, end - begin, T(0)); });
    // Several ids may name one row: threads share the columns.
    parallel_for(h, std::max<std::int64_t>(64, h * kGrain / std::max<std::int64_t>(ids.elements() * h, 1)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = 0; i < ids.elements(); ++i) {
                     std::int64_t row = embedding_row(out, ids.as<std::int32_t>()[i]);
                     if (row < 0) continue;
                     const T* dy = call.inputs[1].as<T>() + i * h;
                     T* to = out.as<T>() + row * h;
                     for (std::int64_t j = begin; j < end; ++j) to[j] += dy[j];
                   }
                 });
  });
}

}  // namespace unity::cpu
