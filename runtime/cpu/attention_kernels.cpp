// Masked softmax and fused attention. Attention goes by blocks of rows, so that the scores stay in cache: two products
// of the library and a softmax between them.
#include <algorithm>
#include <cmath>

#include "core/ops/attention.h"
#include "core/ops/masked_softmax.h"
#include "core/ops/rows.h"
#include "runtime/cpu/elementwise_tools.h"
#include "runtime/cpu/exponential.h"
#include "runtime/cpu/gemm.h"

namespace unity::cpu {
namespace {

constexpr std::int64_t kRows = 64;  // of scores at a time

// In place: softmax of the first `length` positions of a row of scores, zero after them.
template <class T>
void softmax_prefix(T* x, std::int64_t c, std::int64_t length) {
  if (length > 0) {
    T max = lane_max<T>(length, [&](std::int64_t j) { return x[j]; });
    for (std::int64_t j = 0; j < length; ++j) x[j] = exponential(x[j] - max);
    T inverse = 1 / lane_sum<T>(length, [&](std::int64_t j) { return x[j]; });
    for (std::int64_t j = 0; j < length; ++j) x[j] *= inverse;
  }
  std::fill(x + length, x + c, T(0));
}

// The probabilities of rows [row, row + n) of matrix b.
template <class T>
void probabilities(const OpCall& call, const AttentionLoops& l, std::int64_t b, std::int64_t row, std::int64_t n,
                   T* p) {
  const T* q = call.inputs[0].as<T>() + (b * l.s + row) * l.e;
  gemm(false, true, n, l.t, l.e, q, l.e, call.inputs[1].as<T>() + b * l.t * l.e, l.e, T(0), p, l.t);
  T scale = static_cast<T>(real_attribute(call.attributes, 0));
  bool causal = int_attribute(call.attributes, 1) != 0;
  for (std::int64_t r = 0; r < n; ++r) {
    T* scores = p + r * l.t;
    for (std::int64_t j = 0; j < l.t; ++j) scores[j] *= scale;
    softmax_prefix(scores, l.t, causal ? causal_length(l.first + row + r, l.rows, l.t) : l.t);
  }
}

// Calls f(first, last) for shares of the matrices of a batch, in parallel; inside, products use one thread.
template <class F>
void share_batch(std::int64_t batch, std::int64_t work, F&& f) {
  parallel_for(batch, kGrain / std::max<std::int64_t>(work, 1) + 1, [&](std::int64_t first, std::int64_t last) {
    int mine = threads();
    bool shared = last - first < batch;
    if (shared) set_threads(1);
    f(first, last);
    if (shared) set_threads(mine);
  });
}

}  // namespace

void masked_softmax_kernel(const OpCall& call) {
  const Operand &x = call.inputs[0], &mask = call.inputs[1];
  std::int64_t c = x.extent.back();
  Dims own = strides(x.extent), repeated = broadcast_strides(mask, x.extent);
  std::vector<Loop<2>> loops;
  for (std::size_t d = 0; d < x.extent.size(); ++d) loops.push_back({x.extent[d], {own[d], repeated[d]}});
  std::int64_t step = repeated.back();
  // The last loop stays the row; the others keep their order.
  std::vector<Loop<2>> outer = collapse(std::vector<Loop<2>>(loops.begin(), loops.end() - 1));
  outer.push_back({1, {0, 0}});
  dispatch(call, [&]<class T>() {
    parallel_outer(outer, [&](const std::array<std::int64_t, 2>& at, std::int64_t) {
      const T *row = x.as<T>() + at[0], *keep = mask.as<T>() + at[1];
      T *y = call.outputs[0].as<T>() + at[0], max = 0, sum = 0;
      bool first = true;
      for (std::int64_t j = 0; j < c; ++j)
        if (keep[j * step] != 0 && (first || row[j] > max)) max = row[j], first = false;
      for (std::int64_t j = 0; j < c; ++j) y[j] = keep[j * step] != 0 ? exponential(row[j] - max) : T(0);
      sum = lane_sum<T>(c, [&](std::int64_t j) { return y[j]; });
      T inverse = sum == 0 ? T(0) : 1 / sum;  // nothing is kept
      for (std::int64_t j = 0; j < c; ++j) y[j] *= inverse;
    });
  });
}

void causal_softmax_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  std::size_t q = x.extent.size() - 2;
  std::int64_t c = x.extent.back();
  dispatch(call, [&]<class T>() {
    for_each_row(row_count(x), c, [&](std::int64_t r) {
      T* y = call.outputs[0].as<T>() + r * c;
      std::copy_n(x.as<T>() + r * c, c, y);
      softmax_prefix(y, c, causal_length(x.offset[q] + r % x.extent[q], x.global[q], x.global.back()));
    });
  });
}

void attention_kernel(const OpCall& call) {
  AttentionLoops l = attention_loops(call.inputs[0], call.inputs[1], call.inputs[2]);
  dispatch(call, [&]<class T>() {
    share_batch(l.batch, l.s * l.t * (l.e + l.f), [&](std::int64_t first, std::int64_t last) {
      std::vector<T> p(static_cast<std::size_t>(std::min(kRows, l.s) * l.t));
      for (std::int64_t b = first; b < last; ++b)
        for (std::int64_t row = 0; row < l.s; row += kRows) {
          std::int64_t n = std::min(kRows, l.s - row);
          probabilities(call, l, b, row, n, p.data());
          gemm(false, false, n, l.f, l.t, p.data(), l.t, call.inputs[2].as<T>() + b * l.t * l.f, l.f, T(0),
               call.outputs[0].as<T>() + (b * l.s + row) * l.f, l.f);
        }
    });
  });
}

// dv += p^T dy;  dp = dy v^T;  ds = scale p (dp - sum p dp);  dq = ds k;  dk += ds^T q, by blocks of rows.
void attention_gradient_kernel(const OpCall& call) {
  AttentionLoops l = attention_loops(call.inputs[0], call.inputs[1], call.inputs[2]);
  dispatch(call, [&]<class T>() {
    T scale = static_cast<T>(real_attribute(call.attributes, 0));
    share_batch(l.batch, l.s * l.t * (l.e + l.f), [&](std::int64_t first, std::int64_t last) {
      auto block = static_cast<std::size_t>(std::min(kRows, l.s) * l.t);
      std::vector<T> p(block), ds(block);
      for (std::int64_t b = first; b < last; ++b) {
        const T *k = call.inputs[1].as<T>() + b * l.t * l.e, *v = call.inputs[2].as<T>() + b * l.t * l.f;
        T *dk = call.outputs[1].as<T>() + b * l.t * l.e, *dv = call.outputs[2].as<T>() + b * l.t * l.f;
        for (std::int64_t row = 0; row < l.s; row += kRows) {
          std::int64_t n = std::min(kRows, l.s - row);
          const T* q = call.inputs[0].as<T>() + (b * l.s + row) * l.e;
          const T* dy = call.inputs[3].as<T>() + (b * l.s + row) * l.f;
          T sum = row == 0 ? T(0) : T(1);  // later blocks add to the first one's
          probabilities(call, l, b, row, n, p.data());
          gemm(true, false, l.t, l.f, n, p.data(), l.t, dy, l.f, sum, dv, l.f);
          gemm(false, true, n, l.t, l.f, dy, l.f, v, l.f, T(0), ds.data(), l.t);
          for (std::int64_t r = 0; r < n; ++r) {
            T *d = ds.data() + r * l.t, *w = p.data() + r * l.t;
            T inner = lane_sum<T>(l.t, [&](std::int64_t j) { return w[j] * d[j]; });
            for (std::int64_t j = 0; j < l.t; ++j) d[j] = scale * w[j] * (d[j] - inner);
          }
          gemm(false, false, n, l.e, l.t, ds.data(), l.t, k, l.e, T(0), call.outputs[0].as<T>() + (b * l.s + row) * l.e,
               l.e);
          gemm(true, false, l.t, l.e, n, ds.data(), l.t, q, l.e, sum, dk, l.e);
        }
      }
    });
  });
}

}  // namespace unity::cpu
