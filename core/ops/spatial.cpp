#include "core/ops/spatial.h"

namespace unity {

Result<Windows> spatial_windows(std::string_view op, const Dims& input, const Dims& kernel, const Dims& stride,
                                const Dims& padding, const Dims& dilation) {
  if (input.size() != 4) return fail("{}: operand 0 has {} dimensions, expected 4: [n, c, h, w]", op, input.size());
  if (kernel.size() != 2 || stride.size() != 2 || dilation.size() != 2 || padding.size() != 4)
    return fail(
        "{}: kernel {}, stride {}, dilation {} and padding {}, expected 2, 2, 2 and 4 ([top, left, bottom, right]) "
        "sizes",
        op, to_string(AttributeValue(kernel)), to_string(AttributeValue(stride)), to_string(AttributeValue(dilation)),
        to_string(AttributeValue(padding)));
  Windows w;
  for (std::size_t d : {0, 1}) {
    Window& window = w.window[d];
    window = {kernel[d], stride[d], dilation[d], padding[d], padding[d + 2]};
    if (window.kernel < 1 || window.stride < 1 || window.dilation < 1)
      return fail("{}: kernel {}, stride {} and dilation {}, expected at least 1", op, window.kernel, window.stride,
                  window.dilation);
    if (window.pad_before < 0 || window.pad_after < 0)
      return fail("{}: padding is {}, expected at least 0", op, to_string(AttributeValue(padding)));
    w.input[d] = input[d + 2];
    std::int64_t reach = 0, last = 0, padded = 0, room = 0;
    if (__builtin_mul_overflow(window.dilation, window.kernel - 1, &last) || __builtin_add_overflow(last, 1, &reach) ||
        __builtin_add_overflow(w.input[d], window.pad_before, &padded) ||
        __builtin_add_overflow(padded, window.pad_after, &padded))
      return fail("{}: kernel {}, dilation {} and padding {} are too large together", op, window.kernel,
                  window.dilation, to_string(AttributeValue(padding)));
    room = padded - reach;
    if (room < 0)
      return fail("{}: the window reaches over {} positions, but dimension {} has {} with padding", op, reach, d + 2,
                  room + reach);
    w.output[d] = room / window.stride + 1;
  }
  return w;
}

DimAxes windowed(int axis, const Windows& w, std::size_t dim) { return {{axis}, w.window[dim], w.input[dim]}; }

}  // namespace unity
