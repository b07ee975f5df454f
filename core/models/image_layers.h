// For model sources only: the layers that convolutional models share. Tensors are [n, c, h, w].
#pragma once

#include <array>

#include "core/models/family.h"

namespace unity {

struct ConvOptions {
  std::array<std::int64_t, 2> kernel = {1, 1}, stride = {1, 1}, padding = {0, 0};  // rows, columns
  std::int64_t groups = 1;
  bool bias = false;             // "<name>.bias" of shape [channels, 1, 1], zeros
  std::string init = "kaiming";  // see convolution_scale, or "uniform", "normal" with `scale`
  double scale = 0;
};
// The same numbers for rows and columns.
ConvOptions square(std::int64_t kernel, std::int64_t stride = 1, std::int64_t padding = 0, std::int64_t groups = 1);

// Convolution to `channels` with "<name>.weight", of shape [channels, c / groups, kernel rows, kernel columns]. It is
// drawn by `init`: "kaiming", normal with variance 2 / fan_out (He et al., ICCV 2015, as torchvision's ResNets), where
// fan_out is channels times kernel; "glorot", uniform with variance 2 / (fan_in + fan_out).
ValueRef convolution(Builder& b, const std::string& name, ValueRef x, std::int64_t channels,
                     const ConvOptions& options);

// Normalises each channel by its moments over the batch and the image, whose running values "<name>.running_mean" and
// "<name>.running_var" serve inference; weights "<name>.weight" and "<name>.bias". InputError when there is but one
// value per channel, which has no variance.
ValueRef batch_norm(Builder& b, const std::string& name, ValueRef x, double epsilon, bool relu);

ValueRef max_pool(Builder& b, const std::string& name, ValueRef x, std::int64_t kernel, std::int64_t stride,
                  std::int64_t padding = 0);
ValueRef average_pool(Builder& b, const std::string& name, ValueRef x, std::int64_t kernel, std::int64_t stride,
                      std::int64_t padding = 0);

// Mean over the image: [n, c, h, w] to [n, c].
ValueRef global_average(Builder& b, const std::string& name, ValueRef x);

// Channels divided by option 'divisor'. InputError, naming the model, unless it divides them.
std::int64_t divided(const std::string& model, std::int64_t channels, std::int64_t divisor);

}  // namespace unity
