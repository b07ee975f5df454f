#include "core/models/onnx/windows.h"

#include <algorithm>

namespace unity {
namespace {

Dims lift(Dims values, std::int64_t fill) {
  if (values.size() == 1) values.insert(values.begin(), fill);
  return values;
}

}  // namespace

Dims with_two_spatial(const Dims& dims) {
  Dims r = dims;
  if (r.size() == 3) r.insert(r.begin() + 2, 1);
  return r;
}

Dims with_spatial_of(const Dims& result, const Dims& input) {
  Dims r = result;
  if (input.size() == 3) r.erase(r.begin() + 2);
  return r;
}

OnnxWindow read_window(const OnnxContext& c, const Dims& x, Dims kernel) {
  std::size_t spatial = x.size() < 2 ? 0 : x.size() - 2;
  if (spatial != 1 && spatial != 2) c.unsupported("{} spatial dimensions", spatial);
  OnnxWindow w;
  kernel = c.list("kernel_shape", kernel);
  Dims stride = c.list("strides", Dims(spatial, 1)), dilation = c.list("dilations", Dims(spatial, 1));
  Dims pads = c.list("pads", Dims(2 * spatial, 0));
  if (kernel.size() != spatial || stride.size() != spatial || dilation.size() != spatial || pads.size() != 2 * spatial)
    c.wrong("found kernel [{}], strides [{}], dilations [{}], pads [{}], expected them for {} dimensions",
            fmt::join(kernel, ", "), fmt::join(stride, ", "), fmt::join(dilation, ", "), fmt::join(pads, ", "),
            spatial);
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  for (const Dims* values : {&kernel, &stride, &dilation, &pads})
    for (std::int64_t v : *values)
      if (v > kLargest || v < -kLargest) c.wrong("found {} in a window, expected at most {}", v, kLargest);
  const std::string auto_pad = c.text("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER")
    c.wrong("found auto_pad '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto_pad);
  const bool ceil = c.integer("ceil_mode", 0) != 0;
  Dims before(spatial), after(spatial);
  for (std::size_t d = 0; d < spatial; ++d) {
    std::int64_t size = x[d + 2], s = stride[d], reach = (kernel[d] - 1) * dilation[d] + 1;
    if (s < 1 || dilation[d] < 1 || kernel[d] < 1) c.wrong("found a stride, dilation or kernel below 1");
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      std::int64_t total = std::max<std::int64_t>(0, ((size + s - 1) / s - 1) * s + reach - size);
      before[d] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      after[d] = total - before[d];
      continue;
    }
    if (auto_pad == "NOTSET") before[d] = pads[d], after[d] = pads[spatial + d];
    if (before[d] < 0 || after[d] < 0) c.unsupported("negative padding");
    std::int64_t room = size + before[d] + after[d] - reach;
    if (!ceil || room < 0 || room % s == 0) continue;
    // One window more, unless it would start beyond the input and the padding before it.
    if ((room / s + 1) * s >= size + before[d]) continue;
    after[d] += s - room % s;
    w.beyond = true;
  }
  w.kernel = lift(kernel, 1), w.stride = lift(stride, 1), w.dilation = lift(dilation, 1);
  before = lift(before, 0), after = lift(after, 0);
  w.padding = {before[0], before[1], after[0], after[1]};
  return w;
}

}  // namespace unity
