// Kernels that look rows up by index, and the pairs of DLRM.
#include <algorithm>

#include "core/ops/embedding.h"
#include "core/ops/embedding_bag.h"
#include "core/ops/gather.h"
#include "core/ops/pick.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {

void embedding_bag_kernel(const OpCall& call) {
  const Operand &ids = call.inputs[0], &table = call.inputs[1], &y = call.outputs[0];
  std::int64_t l = ids.extent[1], h = table.extent[1];
  dispatch(call, [&]<class T>() {
    T factor = static_cast<T>(embedding_bag_factor(call.attributes, ids));
    for_each_row(y.extent[0], l * h, [&](std::int64_t b) {
      T* __restrict to = y.as<T>() + b * h;
      std::fill_n(to, h, T(0));
      for (std::int64_t i = b * l; i < (b + 1) * l; ++i) {
        std::int64_t row = embedding_row(table, ids.as<std::int32_t>()[i]);
        const T* from = table.as<T>() + row * h;
        for (std::int64_t j = 0; row >= 0 && j < h; ++j) to[j] += from[j] * factor;
      }
    });
  });
}

void embedding_bag_gradient_kernel(const OpCall& call) {
  const Operand &ids = call.inputs[0], &dy = call.inputs[1], &out = call.outputs[0];
  std::int64_t l = ids.extent[1], h = out.extent[1];
  dispatch(call, [&]<class T>() {
    parallel_for(out.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::fill(out.as<T>() + begin, out.as<T>() + end, T(0));
    });
    T factor = static_cast<T>(embedding_bag_factor(call.attributes, ids));
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      std::int64_t row = embedding_row(out, ids.as<std::int32_t>()[i]);
      const T* from = dy.as<T>() + i / l * h;
      T* __restrict to = out.as<T>() + row * h;
      for (std::int64_t j = 0; row >= 0 && j < h; ++j) to[j] += from[j] * factor;
    }
  });
}

void gather_kernel(const OpCall& call) {
  const Operand& ids = call.inputs[1];
  GatherLoops l = gather_loops(int_attribute(call.attributes, 0), call.inputs[0]);
  std::int64_t count = ids.elements();
  dispatch(call, [&]<class T>() {
    for_each_row(l.outer * count, l.inner, [&](std::int64_t r) {
      std::int64_t row = l.row(ids.as<std::int32_t>()[r % count]);
      T* to = call.outputs[0].as<T>() + r * l.inner;
      if (row < 0)
        std::fill_n(to, l.inner, T(0));
      else
        std::copy_n(call.inputs[0].as<T>() + (r / count * l.n + row) * l.inner, l.inner, to);
    });
  });
}

void gather_gradient_kernel(const OpCall& call) {
  const Operand &ids = call.inputs[0], &dx = call.outputs[0];
  GatherLoops l = gather_loops(int_attribute(call.attributes, 0), dx);
  std::int64_t count = ids.elements();
  dispatch(call, [&]<class T>() {
    std::fill_n(dx.as<T>(), dx.elements(), T(0));
    for_each_row(l.outer, count * l.inner, [&](std::int64_t o) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t row = l.row(ids.as<std::int32_t>()[i]);
        const T* from = call.inputs[1].as<T>() + (o * count + i) * l.inner;
        T* __restrict to = dx.as<T>() + (o * l.n + row) * l.inner;
        for (std::int64_t k = 0; row >= 0 && k < l.inner; ++k) to[k] += from[k];
      }
    });
  });
}

void pick_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  dispatch(call, [&]<class T>() {
    for_each_row(call.outputs[0].elements(), 1, [&](std::int64_t r) {
      std::int64_t at = picked_position(x, call.inputs[1], r);
      call.outputs[0].as<T>()[r] = at < 0 ? T(0) : x.as<T>()[at];
    });
  });
}

void pick_gradient_kernel(const OpCall& call) {
  const Operand& dx = call.outputs[0];
  std::int64_t c = dx.extent.back();
  dispatch(call, [&]<class T>() {
    for_each_row(call.inputs[1].elements(), c, [&](std::int64_t r) {
      std::fill_n(dx.as<T>() + r * c, c, T(0));
      std::int64_t at = picked_position(dx, call.inputs[0], r);
      if (at >= 0) dx.as<T>()[at] = call.inputs[1].as<T>()[r];
    });
  });
}

// Products of every sample with itself, of which the strictly lower triangle is kept.
void dot_interaction_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  std::int64_t f = x.extent[1], d = x.extent[2], pairs = f * (f - 1) / 2;
  dispatch(call, [&]<class T>() {
    for_each_row(x.extent[0], f * f * d / 2, [&](std::int64_t b) {
      const T* rows = x.as<T>() + b * f * d;
      T* y = call.outputs[0].as<T>() + b * pairs;
      for (std::int64_t i = 1; i < f; ++i)
        for (std::int64_t j = 0; j < i; ++j)
          *y++ = lane_sum<T>(d, [&](std::int64_t k) { return rows[i * d + k] * rows[j * d + k]; });
    });
  });
}

void dot_interaction_gradient_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  std::int64_t f = x.extent[1], d = x.extent[2], pairs = f * (f - 1) / 2;
  dispatch(call, [&]<class T>() {
    for_each_row(x.extent[0], f * f * d, [&](std::int64_t b) {
      const T *rows = x.as<T>() + b * f * d, *dy = call.inputs[1].as<T>() + b * pairs;
      T* out = call.outputs[0].as<T>() + b * f * d;
      std::fill_n(out, f * d, T(0));
      for (std::int64_t i = 1; i < f; ++i)
        for (std::int64_t j = 0; j < i; ++j, ++dy) {
          const T *a = rows + i * d, *c = rows + j * d;
          T* __restrict da = out + i * d, * __restrict dc = out + j * d;
          for (std::int64_t k = 0; k < d; ++k) da[k] += *dy * c[k], dc[k] += *dy * a[k];
        }
    });
  });
}

void relative_buckets_kernel(const OpCall& call) { get_operator("relative_buckets").reference(call); }

}  // namespace unity::cpu
