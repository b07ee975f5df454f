// Pooling, plane by plane: for each row of windows, one vectorisable loop over the row for each element of the window.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "runtime/cpu/dnn.h"
#include "runtime/cpu/threads.h"

namespace unity::cpu {
namespace {

struct Range {
  std::int64_t begin, end;
};

// The windows 0 .. windows - 1 whose element at distance `k` from their first lies inside 0 .. size - 1.
Range inside(std::int64_t windows, std::int64_t size, std::int64_t stride, std::int64_t k, std::int64_t pad) {
  Range r{0, windows};
  while (r.begin < r.end && r.begin * stride + k - pad < 0) ++r.begin;
  while (r.end > r.begin && (r.end - 1) * stride + k - pad >= size) --r.end;
  return r;
}

// Calls row(plane, i, each) for each plane and row i of windows; each(f) calls f(first position in the plane, range of
// windows) for each element of the windows in row-major order, padding left out.
template <class Row>
void for_each_row(const PoolGeometry& g, Row&& row) {
  UNITY_CHECK((g.h + g.pad_top + g.pad_bottom - (g.kh - 1) * g.dilation[0] - 1) / g.stride[0] + 1 == g.oh &&
                  (g.w + g.pad_left + g.pad_right - (g.kw - 1) * g.dilation[1] - 1) / g.stride[1] + 1 == g.ow,
              "pooling: {} x {} windows do not follow from an image of {} x {}", g.oh, g.ow, g.h, g.w);
  std::vector<Range> columns;
  for (std::int64_t b = 0; b < g.kw; ++b)
    columns.push_back(inside(g.ow, g.w, g.stride[1], b * g.dilation[1], g.pad_left));
  std::int64_t work = g.oh * g.ow * g.kh * g.kw;
  parallel_for(g.n * g.c, (1 << 15) / work + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t plane = first; plane < last; ++plane)
      for (std::int64_t i = 0; i < g.oh; ++i)
        row(plane, i, [&](auto&& f) {
          for (std::int64_t a = 0; a < g.kh; ++a) {
            std::int64_t y = i * g.stride[0] + a * g.dilation[0] - g.pad_top;
            if (y < 0 || y >= g.h) continue;
            for (std::int64_t b = 0; b < g.kw; ++b)
              f(y * g.w + b * g.dilation[1] - g.pad_left, columns[static_cast<std::size_t>(b)]);
          }
        });
  });
}

// How many elements of each window count, by row and by column; their product divides.
struct Divisors {
  Divisors(const PoolGeometry& g, bool count_padding) {
    rows = counts(g.oh, g.h, g.stride[0], g.kh, g.dilation[0], g.pad_top, count_padding);
    columns = counts(g.ow, g.w, g.stride[1], g.kw, g.dilation[1], g.pad_left, count_padding);
  }
  std::vector<std::int64_t> rows, columns;

 private:
  static std::vector<std::int64_t> counts(std::int64_t windows, std::int64_t size, std::int64_t stride, std::int64_t k,
                                          std::int64_t dilation, std::int64_t pad, bool count_padding) {
    std::vector<std::int64_t> result(static_cast<std::size_t>(windows), count_padding ? k : 0);
    for (std::int64_t a = 0; a < k && !count_padding; ++a) {
      Range r = inside(windows, size, stride, a * dilation, pad);
      for (std::int64_t i = r.begin; i < r.end; ++i) ++result[static_cast<std::size_t>(i)];
    }
    for (std::int64_t& n : result) n = std::max<std::int64_t>(n, 1);  // a window of padding alone has the mean 0
    return result;
  }
};

// Whether windows have an element of the image, along one dimension.
std::vector<bool> reading(std::int64_t windows, std::int64_t size, std::int64_t stride, std::int64_t k,
                          std::int64_t dilation, std::int64_t pad) {
  std::vector<bool> reads(static_cast<std::size_t>(windows));
  for (std::int64_t a = 0; a < k; ++a) {
    Range r = inside(windows, size, stride, a * dilation, pad);
    std::fill(reads.begin() + r.begin, reads.begin() + r.end, true);
  }
  return reads;
}

template <class T>
bool wins(T x, T best) {
  return x > best || x != x;
}

// Splits on the stride, so that the common cases are loops with a constant step.
template <class F>
void with_stride(std::int64_t stride, F&& f) {
  if (stride == 1) return f(std::integral_constant<std::int64_t, 1>());
  if (stride == 2) return f(std::integral_constant<std::int64_t, 2>());
  f(stride);
}

template <class T>
void max_forward(const PoolGeometry& g, const T* x, T* y) {
  std::vector<bool> rows = reading(g.oh, g.h, g.stride[0], g.kh, g.dilation[0], g.pad_top),
                    columns = reading(g.ow, g.w, g.stride[1], g.kw, g.dilation[1], g.pad_left);
  bool all = std::find(columns.begin(), columns.end(), false) == columns.end();
  with_stride(g.stride[1], [&](auto stride) {
    for_each_row(g, [&](std::int64_t plane, std::int64_t i, auto&& each) {
      const T* image = x + plane * g.h * g.w;
      T* __restrict out = y + (plane * g.oh + i) * g.ow;
      std::fill_n(out, g.ow, -std::numeric_limits<T>::infinity());
      each([&](std::int64_t at, Range r) {
        const T* from = image + at;
        for (std::int64_t j = r.begin; j < r.end; ++j) {
          T v = from[j * stride];
          out[j] = wins(v, out[j]) ? v : out[j];
        }
      });
      bool row = rows[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < g.ow && !(row && all); ++j)
        if (!row || !columns[static_cast<std::size_t>(j)]) out[j] = 0;
    });
  });
}

template <class T>
void max_backward(const PoolGeometry& g, const T* x, const T* dy, T* dx) {
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;  // as wide as T: vectorises with it
  std::fill_n(dx, g.n * g.c * g.h * g.w, T(0));
  with_stride(g.stride[1], [&](auto stride) {
    for_each_row(g, [&](std::int64_t plane, std::int64_t i, auto&& each) {
      thread_local std::vector<T> bests;
      thread_local std::vector<Index> positions;
      bests.assign(static_cast<std::size_t>(g.ow), -std::numeric_limits<T>::infinity());
      positions.assign(static_cast<std::size_t>(g.ow), -1);
      T* __restrict best = bests.data();
      Index* __restrict position = positions.data();
      const T* image = x + plane * g.h * g.w;
      each([&](std::int64_t at, Range r) {
        const T* from = image + at;
        auto first = static_cast<Index>(at);
        for (std::int64_t j = r.begin; j < r.end; ++j) {
          T v = from[j * stride];
          bool take = wins(v, best[j]) || position[j] < 0;
          best[j] = take ? v : best[j];
          position[j] = take ? first + static_cast<Index>(j * stride) : position[j];
        }
      });
      const T* from = dy + (plane * g.oh + i) * g.ow;
      T* to = dx + plane * g.h * g.w;
      for (std::int64_t j = 0; j < g.ow; ++j)
        if (position[j] >= 0) to[position[j]] += from[j];
    });
  });
}

template <class T>
void avg_forward(const PoolGeometry& g, const T* x, T* y, bool count_padding) {
  Divisors divisors(g, count_padding);
  with_stride(g.stride[1], [&](auto stride) {
    for_each_row(g, [&](std::int64_t plane, std::int64_t i, auto&& each) {
      const T* image = x + plane * g.h * g.w;
      T* __restrict out = y + (plane * g.oh + i) * g.ow;
      std::fill_n(out, g.ow, T(0));
      each([&](std::int64_t at, Range r) {
        const T* from = image + at;
        for (std::int64_t j = r.begin; j < r.end; ++j) out[j] += from[j * stride];
      });
      auto rows = static_cast<T>(divisors.rows[static_cast<std::size_t>(i)]);
      for (std::int64_t j = 0; j < g.ow; ++j)
        out[j] /= rows * static_cast<T>(divisors.columns[static_cast<std::size_t>(j)]);
    });
  });
}

template <class T>
void avg_backward(const PoolGeometry& g, const T* dy, T* dx, bool count_padding) {
  Divisors divisors(g, count_padding);
  std::fill_n(dx, g.n * g.c * g.h * g.w, T(0));
  with_stride(g.stride[1], [&](auto stride) {
    for_each_row(g, [&](std::int64_t plane, std::int64_t i, auto&& each) {
      thread_local std::vector<T> shares;
      shares.resize(static_cast<std::size_t>(g.ow));
      T* __restrict share = shares.data();
      const T* from = dy + (plane * g.oh + i) * g.ow;
      auto rows = static_cast<T>(divisors.rows[static_cast<std::size_t>(i)]);
      for (std::int64_t j = 0; j < g.ow; ++j)
        share[j] = from[j] / (rows * static_cast<T>(divisors.columns[static_cast<std::size_t>(j)]));
      T* image = dx + plane * g.h * g.w;
      each([&](std::int64_t at, Range r) {
        T* to = image + at;
        for (std::int64_t j = r.begin; j < r.end; ++j) to[j * stride] += share[j];
      });
    });
  });
}

}  // namespace

void max_pool_forward(const PoolGeometry& g, const float* x, float* y) { max_forward(g, x, y); }
void max_pool_forward(const PoolGeometry& g, const double* x, double* y) { max_forward(g, x, y); }
void max_pool_backward(const PoolGeometry& g, const float* x, const float* dy, float* dx) {
  max_backward(g, x, dy, dx);
}
void max_pool_backward(const PoolGeometry& g, const double* x, const double* dy, double* dx) {
  max_backward(g, x, dy, dx);
}
void avg_pool_forward(const PoolGeometry& g, const float* x, float* y, bool count_padding) {
  avg_forward(g, x, y, count_padding);
}
void avg_pool_forward(const PoolGeometry& g, const double* x, double* y, bool count_padding) {
  avg_forward(g, x, y, count_padding);
}
void avg_pool_backward(const PoolGeometry& g, const float* dy, float* dx, bool count_padding) {
  avg_backward(g, dy, dx, count_padding);
}
void avg_pool_backward(const PoolGeometry& g, const double* dy, double* dx, bool count_padding) {
  avg_backward(g, dy, dx, count_padding);
}

}  // namespace unity::cpu
