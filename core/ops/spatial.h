// For operators that slide a window over the last two dimensions of [n, c, h, w] (convolution, pooling).
#pragma once

#include <array>
#include <string_view>

#include "core/ops/define.h"

namespace unity {

// Kernel, stride, dilation and padding of both spatial dimensions: [0] rows (h), [1] columns (w).
struct Windows {
  std::array<Window, 2> window;
  std::array<std::int64_t, 2> input{}, output{};  // logical sizes
};

// Padding is [top, left, bottom, right]. Errors: wrong lengths, non-positive kernel, stride or dilation, negative
// padding, a window that does not fit.
Result<Windows> spatial_windows(std::string_view op, const Dims& input, const Dims& kernel, const Dims& stride,
                                const Dims& padding, const Dims& dilation);

// Dimension of the input that the axis of output positions walks through its window.
DimAxes windowed(int axis, const Windows& w, std::size_t dim);

// Calls f(kernel position, input position) for the part of the window of output position `at` that lies in the input;
// all are positions in the logical tensors.
template <class F>
void for_window(const Window& w, std::int64_t input_size, std::int64_t at, F&& f) {
  for (std::int64_t k = 0; k < w.kernel; ++k) {
    std::int64_t i = at * w.stride + k * w.dilation - w.pad_before;
    if (i >= 0 && i < input_size) f(k, i);
  }
}

}  // namespace unity
