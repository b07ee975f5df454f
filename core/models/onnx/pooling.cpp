// Poolings.
#include <algorithm>

#include "core/models/onnx/translations.h"
#include "core/models/onnx/windows.h"

namespace unity {
namespace {

void global(OnnxContext& c, const std::string& op) {
  Dims x = c.dims(0), over, result = x;
  for (std::size_t d = 2; d < x.size(); ++d) over.push_back(static_cast<std::int64_t>(d)), result[d] = 1;
  if (over.empty()) c.wrong("found {} dimensions, expected at least 3", x.size());
  c.result(0, c.reshape(c.emit(op, {{"dims", over}}, {c.tensor(0)}), result));
}

void pool(OnnxContext& c, const std::string& op, const OnnxWindow& w, NamedAttributes more) {
  Dims x = c.dims(0);
  NamedAttributes attributes = {{"kernel", w.kernel}, {"stride", w.stride}, {"padding", w.padding}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  ValueRef y = c.emit(op, attributes, {c.reshape(c.tensor(0), with_two_spatial(x))});
  c.result(0, c.reshape(y, with_spatial_of(c.dims_of(y), x)));
}

}  // namespace

void onnx_MaxPool(OnnxContext& c) {
  if (c.wanted(1)) c.unsupported("the indices as a result");
  OnnxWindow w = read_window(c, c.dims(0), {});
  pool(c, "max_pool2d", w, {{"dilation", w.dilation}});
}

void onnx_AveragePool(OnnxContext& c) {
  OnnxWindow w = read_window(c, c.dims(0), {});
  if (w.dilation != Dims{1, 1}) c.unsupported("dilations of an average");
  bool include = c.integer("count_include_pad", 0) != 0;
  Dims pads = c.list("pads", {});
  // What ceil_mode adds at the end is never counted; padding that is asked for may be.
  if (include && w.beyond) {
    if (std::any_of(pads.begin(), pads.end(), [](std::int64_t p) { return p != 0; }))
      c.unsupported("ceil_mode with padding that counts");
    include = false;
  }
  pool(c, "avg_pool2d", w, {{"count_include_pad", std::int64_t{include}}});
}

void onnx_GlobalAveragePool(OnnxContext& c) { global(c, "reduce_mean"); }
void onnx_GlobalMaxPool(OnnxContext& c) { global(c, "reduce_max"); }

}  // namespace unity
