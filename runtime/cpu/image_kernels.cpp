// Convolution and pooling: a block of a logical tensor becomes a geometry for runtime/cpu/dnn.h, whose pads are those
// of the block: zero at inner borders, where the halo is part of the block.
#include <memory>

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

namespace {

template <class T>
void input_gradient(const OpCall& call, T* dx) {
  conv_input_gradient(geometry(call, call.outputs[0], call.inputs[0], call.inputs[1]), call.inputs[1].as<T>(),
                      call.inputs[0].as<T>(), dx);
}

template <class T>
void weight_gradient(const OpCall& call, T* dw) {
  conv_weight_gradient(geometry(call, call.inputs[0], call.outputs[0], call.inputs[1]), call.inputs[0].as<T>(),
                       call.inputs[1].as<T>(), dw);
}

// oneDNN's gradients overwrite: where the sum is in the place of the result they go to a block of their own.
template <class T, class Gradient>
void add_to_sum(const OpCall& call, Gradient&& gradient) {
  const std::int64_t n = call.outputs[0].elements();
  const T* sum = call.inputs.back().as<T>();
  T* result = call.outputs[0].as<T>();
  std::unique_ptr<T[]> own;
  if (result == sum) own.reset(new T[static_cast<std::size_t>(n)]);
  T* added = own ? own.get() : result;
  gradient(added);
  parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) result[i] = sum[i] + added[i];
  });
}

}  // namespace

void conv2d_input_gradient_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { input_gradient(call, call.outputs[0].as<T>()); });
}

void conv2d_input_gradient_accumulate_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { add_to_sum<T>(call, [&](T* dx) { input_gradient(call, dx); }); });
}

void conv2d_weight_gradient_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { weight_gradient(call, call.outputs[0].as<T>()); });
}

void conv2d_weight_gradient_accumulate_kernel(const OpCall& call) {
  dispatch(call, [&]<class T>() { add_to_sum<T>(call, [&](T* dw) { weight_gradient(call, dw); }); });
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
