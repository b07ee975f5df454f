#include "core/models/image_layers.h"

#include <cmath>

namespace unity {

ConvOptions square(std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t groups) {
  return {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}, .groups = groups};
}

ValueRef convolution(Builder& b, const std::string& name, ValueRef x, std::int64_t channels, const ConvOptions& o) {
  Builder::Scope scope(b, name);
  std::int64_t positions = o.kernel[0] * o.kernel[1], in = b.dims(x)[1] / o.groups;
  std::string init = o.init;
  double scale = o.scale, fan_in = static_cast<double>(in * positions),
         fan_out = static_cast<double>(channels * positions);
  if (init == "kaiming") init = "normal", scale = std::sqrt(2 / fan_out);
  if (init == "glorot") init = "uniform", scale = std::sqrt(6 / (fan_in + fan_out));
  ValueRef weight = b.weight("weight", {channels, in, o.kernel[0], o.kernel[1]}, init, scale);
  ValueRef y = b.apply("conv2d",
                       {Dims{o.stride[0], o.stride[1]}, Dims{o.padding[0], o.padding[1], o.padding[0], o.padding[1]},
                        Dims{1, 1}, o.groups},
                       {x, weight});
  if (!o.bias) return y;
  return b.apply("add", {}, {y, b.weight("bias", {channels, 1, 1}, "zeros")}, "add_bias");
}

ValueRef batch_norm(Builder& b, const std::string& name, ValueRef x, double epsilon, bool relu) {
  Builder::Scope scope(b, name);
  Dims dims = b.dims(x), size = {dims[1]};
  std::int64_t count = dims[0] * dims[2] * dims[3];
  if (count < 2)
    throw_input_error("{}: one sample of 1 x 1 positions has no variance, expected a larger batch or image", name);
  std::vector<ValueRef> moments = b.results("moments", {}, {x});
  ValueRef mean = b.apply("state", {size, std::string("zeros"), 0.0}, {}, "running_mean");
  ValueRef variance = b.apply("state", {size, std::string("ones"), 0.0}, {}, "running_var");
  std::vector<ValueRef> combined = b.results("combine_moments", {count, 0.1}, {moments[0], moments[1], mean, variance});
  ValueRef weight = b.weight("weight", size, "ones"), bias = b.weight("bias", size, "zeros");
  return b.apply("batch_norm", {epsilon, std::string(relu ? "relu" : "none")},
                 {x, combined[0], combined[1], weight, bias});
}

ValueRef max_pool(Builder& b, const std::string& name, ValueRef x, std::int64_t kernel, std::int64_t stride,
                  std::int64_t padding) {
  return b.apply("max_pool2d", {Dims(2, kernel), Dims(2, stride), Dims(4, padding)}, {x}, name);
}

ValueRef average_pool(Builder& b, const std::string& name, ValueRef x, std::int64_t kernel, std::int64_t stride,
                      std::int64_t padding) {
  return b.apply("avg_pool2d", {Dims(2, kernel), Dims(2, stride), Dims(4, padding)}, {x}, name);
}

ValueRef global_average(Builder& b, const std::string& name, ValueRef x) {
  return b.apply("reduce_mean", {Dims{2, 3}}, {x}, name);
}

std::int64_t divided(const std::string& model, std::int64_t channels, std::int64_t divisor) {
  if (channels % divisor != 0)
    throw_input_error("model {}: option 'divisor' is {}, expected a divisor of {} channels", model, divisor, channels);
  return channels / divisor;
}

}  // namespace unity
