// One spatial dimension of a convolution or pooling, of blocks: which positions of the block of x the windows of the
// block of y cover. At inner borders the halo is part of x's block, so that a position outside it is padding.
#pragma once

#include "core/ops/spatial.h"
#include "runtime/cuda/walk.h"

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

// Four neighbours of a row of a block of images, the first of them at a multiple of four; fewer at the end of a row.
struct Quad {
  std::int64_t plane;
  int row, column;
};
class Quads {
 public:
  Quads(int rows, int columns) : rows_(rows), in_row_((columns + 3) / 4), by_row_(in_row_), by_plane_(rows) {}
  std::int64_t in_plane() const { return static_cast<std::int64_t>(rows_) * in_row_; }
  UNITY_DEVICE Quad at(std::int64_t first_plane, int i) const {
    int line = by_row_.narrow_quotient(i), plane = by_plane_.narrow_quotient(line);
    return {first_plane + plane, line - plane * rows_, (i - line * in_row_) * 4};
  }

 private:
  int rows_, in_row_;
  Divider by_row_, by_plane_;
};

// f(quad) for every one of these planes; a launch takes as many planes as 31 bits count the quads of.
template <class F>
void for_each_quad(Stream stream, std::int64_t planes, const Quads& quads, F f) {
  std::int64_t in_plane = quads.in_plane();
  UNITY_CHECK(in_plane <= INT32_MAX / 4, "cuda: an image of over 2^31 elements");
  std::int64_t most = in_plane > 0 ? INT32_MAX / in_plane : planes;
  for (std::int64_t first = 0; first < planes; first += most)
    for_each(
        stream, std::min(most, planes - first) * in_plane,
        UNITY_LAMBDA(std::int64_t i) { f(quads.at(first, static_cast<int>(i))); });
}

// Which windows may cover a position: first(i) .. last(i).
struct Covering {
  WindowLoop loop;
  Divider stride;
  explicit Covering(const WindowLoop& l) : loop(l), stride(l.stride) {}
  UNITY_DEVICE int first(int i) const {
    int beyond = i + loop.pad - (loop.kernel - 1) * loop.dilation;
    return beyond > 0 ? stride.narrow_quotient(beyond + loop.stride - 1) : 0;
  }
  UNITY_DEVICE int last(int i) const {
    if (i + loop.pad < 0) return -1;
    int window = stride.narrow_quotient(i + loop.pad);
    return window < loop.windows ? window : loop.windows - 1;
  }
};

}  // namespace unity::cuda
