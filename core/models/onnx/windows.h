// The windows of convolutions and poolings. One spatial dimension is treated as two, of which the first has size 1.
#pragma once

#include "core/models/onnx/context.h"

namespace unity {

struct OnnxWindow {
  Dims kernel, stride, dilation;  // two each
  Dims padding;                   // top, left, bottom, right
  bool beyond = false;            // ceil_mode: the last window reaches beyond the padding asked for
};

// From kernel_shape (or the given one), strides, dilations, pads, auto_pad and ceil_mode, for an input of shape
// [n, c, spatial ..]. Unsupported unless it has one or two spatial dimensions.
OnnxWindow read_window(const OnnxContext& c, const Dims& x, Dims kernel);

// [n, c, l] as [n, c, 1, l], and the shape of a result back to as many dimensions as the input has.
Dims with_two_spatial(const Dims& dims);
Dims with_spatial_of(const Dims& result, const Dims& input);

}  // namespace unity
