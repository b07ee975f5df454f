// For convolution sources only: the part of an image block that windows read.
#pragma once

#include <algorithm>

#include "core/base/error.h"
#include "runtime/cpu/dnn.h"

namespace unity::cpu {

// Rows and columns of a block that windows reach, without those that negative pads or a stride that does not divide
// leave out, and the pads around that part: none negative, and such that it and the pads are read to the last element.
struct Crop {
  explicit Crop(const ConvGeometry& g) {
    UNITY_CHECK(g.groups > 0 && g.ci % g.groups == 0 && g.co % g.groups == 0,
                "convolution: {} and {} channels in {} groups", g.ci, g.co, g.groups);
    Axis rows(g.h, g.kh, g.oh, g.stride[0], g.dilation[0], g.pad_top, g.pad_bottom);
    Axis columns(g.w, g.kw, g.ow, g.stride[1], g.dilation[1], g.pad_left, g.pad_right);
    h = rows.length, pad_top = rows.before, pad_bottom = rows.after;
    w = columns.length, pad_left = columns.before, pad_right = columns.after;
    first = rows.first * g.w + columns.first;
  }
  bool crops(const ConvGeometry& g) const { return h != g.h || w != g.w; }

  std::int64_t h, w, pad_top, pad_left, pad_bottom, pad_right;
  std::int64_t first;  // position of the part in a channel of the block

 private:
  struct Axis {
    Axis(std::int64_t size, std::int64_t kernel, std::int64_t windows, std::int64_t stride, std::int64_t dilation,
         std::int64_t pad_before, std::int64_t pad_after) {
      std::int64_t range = (kernel - 1) * dilation + 1;
      UNITY_CHECK(
          windows >= 1 && (size + pad_before + pad_after - range) / stride + 1 == windows,
          "convolution: size {} with pads {} and {}, kernel {}, stride {}, dilation {} does not give {} windows", size,
          pad_before, pad_after, kernel, stride, dilation, windows);
      first = std::max<std::int64_t>(-pad_before, 0);
      before = std::max<std::int64_t>(pad_before, 0);
      std::int64_t end = (windows - 1) * stride + range - pad_before;  // one behind the last element read
      after = std::max<std::int64_t>(end - size, 0);
      length = std::min(size, end) - first;
    }
    std::int64_t first, length, before, after;
  };
};

}  // namespace unity::cpu
