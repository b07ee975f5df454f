// Convolution in double precision: per image and group, the windows as columns of a matrix, and a product.
#include <vector>

#include "runtime/cpu/conv_tools.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

// Calls f(image position, column position, length, stride in the image) for each run of a row of windows that lies in
// the image; row (c, a, b) of the column matrix holds the element (a, b) of every window of channel c.
template <class F>
void for_each_run(const ConvGeometry& g, F&& f) {
  std::int64_t row = 0;
  for (std::int64_t c = 0; c < g.ci / g.groups; ++c)
    for (std::int64_t a = 0; a < g.kh; ++a)
      for (std::int64_t b = 0; b < g.kw; ++b, ++row) {
        std::int64_t shift = b * g.dilation[1] - g.pad_left, low = 0, high = g.ow;
        while (low < high && low * g.stride[1] + shift < 0) ++low;
        while (high > low && (high - 1) * g.stride[1] + shift >= g.w) --high;
        for (std::int64_t i = 0; i < g.oh; ++i) {
          std::int64_t y = i * g.stride[0] + a * g.dilation[0] - g.pad_top;
          if (y < 0 || y >= g.h || low == high) continue;
          f((c * g.h + y) * g.w + low * g.stride[1] + shift, (row * g.oh + i) * g.ow + low, high - low, g.stride[1]);
        }
      }
}

struct Sizes {
  explicit Sizes(const ConvGeometry& g)
      : ci(g.ci / g.groups), co(g.co / g.groups), rows(ci * g.kh * g.kw), windows(g.oh * g.ow), area(g.h * g.w) {
    Crop checked(g);
  }
  std::vector<double> columns() const { return std::vector<double>(static_cast<std::size_t>(rows * windows)); }
  std::int64_t ci, co, rows, windows, area;
};

// Padding stays as it was: zero from the start.
void gather(const ConvGeometry& g, const double* image, std::vector<double>& columns) {
  for_each_run(g, [&](std::int64_t from, std::int64_t to, std::int64_t length, std::int64_t stride) {
    for (std::int64_t k = 0; k < length; ++k) columns[static_cast<std::size_t>(to + k)] = image[from + k * stride];
  });
}

}  // namespace

void conv_forward(const ConvGeometry& g, const double* x, const double* w, double* y, bool relu) {
  Sizes s(g);
  std::vector<double> columns = s.columns();
  for (std::int64_t i = 0; i < g.n * g.groups; ++i) {
    gather(g, x + i * s.ci * s.area, columns);
    gemm(false, false, s.co, s.windows, s.rows, w + i % g.groups * s.co * s.rows, s.rows, columns.data(), s.windows,
         0.0, y + i * s.co * s.windows, s.windows);
  }
  if (relu) relu_in_place(y, g.n * g.co * s.windows);
}

void conv_input_gradient(const ConvGeometry& g, const double* dy, const double* w, double* dx) {
  Sizes s(g);
  std::vector<double> columns = s.columns();
  std::fill_n(dx, g.n * g.ci * s.area, 0.0);
  for (std::int64_t i = 0; i < g.n * g.groups; ++i) {
    gemm(true, false, s.rows, s.windows, s.co, w + i % g.groups * s.co * s.rows, s.rows, dy + i * s.co * s.windows,
         s.windows, 0.0, columns.data(), s.windows);
    double* image = dx + i * s.ci * s.area;
    for_each_run(g, [&](std::int64_t to, std::int64_t from, std::int64_t length, std::int64_t stride) {
      for (std::int64_t k = 0; k < length; ++k) image[to + k * stride] += columns[static_cast<std::size_t>(from + k)];
    });
  }
}

void conv_weight_gradient(const ConvGeometry& g, const double* x, const double* dy, double* dw) {
  Sizes s(g);
  std::vector<double> columns = s.columns();
  for (std::int64_t i = 0; i < g.n * g.groups; ++i) {
    gather(g, x + i * s.ci * s.area, columns);
    gemm(false, true, s.co, s.rows, s.windows, dy + i * s.co * s.windows, s.windows, columns.data(), s.windows,
         i < g.groups ? 0.0 : 1.0, dw + i % g.groups * s.co * s.rows, s.rows);
  }
}

}  // namespace unity::cpu
