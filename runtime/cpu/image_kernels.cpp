// Convolution and pooling: a block of a logical tensor becomes a geometry for runtime/cpu/dnn.h, whose pads are those
// of the block: zero at inner borders, where the halo is part of the block.
#include "core/ops/conv2d.h"
#include "core/ops/pooling.h"
#include "runtime/cpu/dnn.h"
#include "runtime/cpu/kernel_tools.h"

namespace unity::cpu {
namespace {

// Pads before and after a block of dimension d, for the given block of the result.
struct Pads {
  std::int64_t before = 0, after = 0;
};
Pads block_pads(const Window& w, const Operand& x, const Operand& y, std::size_t d) {
  std::int64_t first = y.offset[d] * w.stride - w.pad_before;
  std::int64_t last = (y.offset[d] + y.extent[d] - 1) * w.stride - w.pad_before + (w.kernel - 1) * w.dilation + 1;
  return {x.offset[d] - first, last - (x.offset[d] + x.extent[d])};
}

ConvGeometry geometry(const OpCall& call, const Operand& x, const Operand& w, const Operand& y) {
  Windows windows = conv2d_windows("conv2d", call.attributes, x.global, w.global).value();
  ConvGeometry g;
  g.n = x.extent[0], g.ci = x.extent[1], g.h = x.extent[2], g.w = x.extent[3];
  g.co = w.extent[0], g.kh = w.extent[2], g.kw = w.extent[3], g.oh = y.extent[2], g.ow = y.extent[3];
  for (std::size_t d : {0, 1}) {
    g.stride[d] = windows.window[d].stride;
    g.dilation[d] = windows.window[d].dilation;
  }
  Pads rows = block_pads(windows.window[0], x, y, 2), columns = block_pads(windows.window[1], x, y, 3);
  g.pad_top = rows.before, g.pad_bottom = rows.after, g.pad_left = columns.before, g.pad_right = columns.after;
  g.groups = x.extent[1] / w.extent[1];  // of this block: all, or a share
  return g;
}

PoolGeometry geometry(const Windows& windows, const Operand& x, const Operand& y) {
  PoolGeometry g;
  g.n = x.extent[0], g.c = x.extent[1], g.h = x.extent[2], g.w = x.extent[3];
  g.kh = windows.window[0].kernel, g.kw = windows.window[1].kernel, g.oh = y.extent[2], g.ow = y.extent[3];
  for (std::size_t d : {0, 1}) g.stride[d] = windows.window[d].stride, g.dilation[d] = windows.window[d].dilation;
  Pads rows = block_pads(windows.window[0], x, y, 2), columns = block_pads(windows.window[1], x, y, 3);
  g.pad_top = rows.before, g.pad_bottom = rows.after, g.pad_left = columns.before, g.pad_right = columns.after;
  return g;
}

}  // namespace

void conv2d_kernel(const OpCall& call) {
  ConvGeometry g = geometry(call, call.inputs[0], call.inputs[1], call.outputs[0]);
  dispatch(call, [&]<class T>() {
    conv_forward(g, call.inputs[0].as<T>(), call.inputs[1].as<T>(), call.outputs[0].as<T>(),
                 conv2d_relu(call.attributes));
  });
}

void conv2d_input_gradient_kernel(const OpCall& call) {
  ConvGeometry g = geometry(call, call.outputs[0], call.inputs[0], call.inputs[1]);
  dispatch(call, [&]<class T>() {
    conv_input_gradient(g, call.inputs[1].as<T>(), call.inputs[0].as<T>(), call.outputs[0].as<T>());
  });
}

void conv2d_weight_gradient_kernel(const OpCall& call) {
  ConvGeometry g = geometry(call, call.inputs[0], call.outputs[0], call.inputs[1]);
  dispatch(call, [&]<class T>() {
    conv_weight_gradient(g, call.inputs[0].as<T>(), call.inputs[1].as<T>(), call.outputs[0].as<T>());
  });
}

void max_pool2d_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  PoolGeometry g = geometry(max_pool2d_windows("max_pool2d", call.attributes, x.global).value(), x, call.outputs[0]);
  dispatch(call, [&]<class T>() { max_pool_forward(g, x.as<T>(), call.outputs[0].as<T>()); });
}

void max_pool2d_gradient_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  PoolGeometry g = geometry(max_pool2d_windows("max_pool2d", call.attributes, x.global).value(), x, call.inputs[1]);
  dispatch(call, [&]<class T>() { max_pool_backward(g, x.as<T>(), call.inputs[1].as<T>(), call.outputs[0].as<T>()); });
}

void avg_pool2d_kernel(const OpCall& call) {
  const Operand& x = call.inputs[0];
  PoolGeometry g = geometry(avg_pool2d_windows("avg_pool2d", call.attributes, x.global).value(), x, call.outputs[0]);
  bool count_padding = int_attribute(call.attributes, 3) != 0;
  dispatch(call, [&]<class T>() { avg_pool_forward(g, x.as<T>(), call.outputs[0].as<T>(), count_padding); });
}

void avg_pool2d_gradient_kernel(const OpCall& call) {
  const Operand &dy = call.inputs[0], &dx = call.outputs[0];
  PoolGeometry g = geometry(avg_pool2d_windows("avg_pool2d", call.attributes, dx.global).value(), dx, dy);
  bool count_padding = int_attribute(call.attributes, 3) != 0;
  dispatch(call, [&]<class T>() { avg_pool_backward(g, dy.as<T>(), dx.as<T>(), count_padding); });
}

}  // namespace unity::cpu
