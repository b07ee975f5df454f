// Convolution and pooling on raw row-major memory: images [n, c, h, w], convolution weights [co, ci / groups, kh, kw].
// Single precision is oneDNN's (conv_float.cpp, conv_primitive.cpp), double precision im2col and dgemm.
//
// A geometry describes one block of a logical tensor: the pads are those of the block, so they may differ from side to
// side, are 0 where the neighbourhood of an inner border is part of the block, and negative where the block has
// more than the windows read.
#pragma once

#include <array>
#include <cstdint>

namespace unity::cpu {

struct ConvGeometry {
  std::int64_t n = 1, ci = 1, h = 1, w = 1, co = 1, kh = 1, kw = 1, oh = 1, ow = 1;
  std::array<std::int64_t, 2> stride = {1, 1}, dilation = {1, 1};  // vertical, horizontal; dilation 1 is dense
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int64_t groups = 1;

  auto operator<=>(const ConvGeometry&) const = default;
};

// y[n, o, i, j] = sum over c, a, b of x[n, c, i stride - pad + a dilation, ...] w[o, c, a, b]; with `relu` max(0,
// that), where NaN stays. CHECKs that oh and ow follow from the rest. Sums depend on the number of threads (threads.h)
// and on nothing else.
void conv_forward(const ConvGeometry& g, const float* x, const float* w, float* y, bool relu);
void conv_forward(const ConvGeometry& g, const double* x, const double* w, double* y, bool relu);

// dx = the gradient with respect to x; zero where no window reads x. Overwrites.
void conv_input_gradient(const ConvGeometry& g, const float* dy, const float* w, float* dx);
void conv_input_gradient(const ConvGeometry& g, const double* dy, const double* w, double* dx);

// dw = the gradient with respect to w, summed over all images. Overwrites.
void conv_weight_gradient(const ConvGeometry& g, const float* x, const float* dy, float* dw);
void conv_weight_gradient(const ConvGeometry& g, const double* x, const double* dy, double* dw);

struct PoolGeometry {
  std::int64_t n = 1, c = 1, h = 1, w = 1, kh = 1, kw = 1, oh = 1, ow = 1;
  std::array<std::int64_t, 2> stride = {1, 1};
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::array<std::int64_t, 2> dilation = {1, 1};
};

// The largest element of each window; padding never wins, NaN does. 0 where a window has padding alone.
void max_pool_forward(const PoolGeometry& g, const float* x, float* y);
void max_pool_forward(const PoolGeometry& g, const double* x, double* y);
// Each dy goes to the first largest element of its window in row-major order, found again in x. Overwrites dx.
void max_pool_backward(const PoolGeometry& g, const float* x, const float* dy, float* dx);
void max_pool_backward(const PoolGeometry& g, const double* x, const double* dy, double* dx);

// The mean of each window: over kh kw elements if `count_padding`, else over those that are not padding.
void avg_pool_forward(const PoolGeometry& g, const float* x, float* y, bool count_padding);
void avg_pool_forward(const PoolGeometry& g, const double* x, double* y, bool count_padding);
void avg_pool_backward(const PoolGeometry& g, const float* dy, float* dx, bool count_padding);
void avg_pool_backward(const PoolGeometry& g, const double* dy, double* dx, bool count_padding);

}  // namespace unity::cpu
