// One spatial dimension of a convolution or pooling, of blocks: which positions of the block of x the windows of the
// block of y cover. At inner borders the halo is part of x's block, so that a position outside it is padding.
#pragma once

#include "core/ops/spatial.h"
#include "runtime/cuda/launch.h"

namespace unity::cuda {

struct WindowLoop {
  int size, windows, kernel, stride, dilation, pad;
  // Position in x of element k of window `at`; outside [0, size): padding.
  UNITY_DEVICE int position(int at, int k) const { return at * stride + k * dilation - pad; }
  UNITY_DEVICE bool inside(int i) const { return i >= 0 && i < size; }
  // The window whose element k lies at position i; -1: there is none.
  UNITY_DEVICE int window(int i, int k) const {
    int distance = i + pad - k * dilation;
    if (distance < 0 || distance % stride != 0 || distance / stride >= windows) return -1;
    return distance / stride;
  }
  // How many elements of window `at` lie in x.
  UNITY_DEVICE int inside_count(int at) const {
    int count = 0;
    for (int k = 0; k < kernel; ++k) count += inside(position(at, k));
    return count;
  }
};

// Of dimension d, 2 or 3.
inline WindowLoop window_loop(const Windows& windows, const Operand& x, const Operand& y, std::size_t d) {
  const Window& w = windows.window[d - 2];
  auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  return {narrow(x.extent[d]), narrow(y.extent[d]), narrow(w.kernel),
          narrow(w.stride),    narrow(w.dilation),  narrow(x.offset[d] - (y.offset[d] * w.stride - w.pad_before))};
}

// The loops over a block of images: `planes` of rows times columns.
struct Image {
  std::int64_t planes;
  WindowLoop rows, columns;
};
inline Image image_of(const Windows& windows, const Operand& x, const Operand& y) {
  return {x.extent[0] * x.extent[1], window_loop(windows, x, y, 2), window_loop(windows, x, y, 3)};
}

// An element of a block of images.
struct Pixel {
  std::int64_t plane;
  int row, column;
};
UNITY_DEVICE Pixel pixel_at(std::int64_t i, int rows, int columns) {
  std::int64_t line = i / columns;
  return {line / rows, static_cast<int>(line % rows), static_cast<int>(i % columns)};
}

}  // namespace unity::cuda
