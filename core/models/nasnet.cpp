// NASNet-A mobile, 4 @ 1056 (Zoph, Vasudevan, Shlens, Le, "Learning Transferable Architectures for Scalable Image
// Recognition", CVPR 2018, figure 4): a cell takes the results of the two cells before it. Without the auxiliary head,
// drop path and dropout. Weights have the names of the common PyTorch state dict; padding is as in the publication
// ("same": ceil(size / stride) results, the odd element of padding after the image).
#include <cmath>
#include <utility>

#include "core/models/image_layers.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-3;

struct Same {
  std::int64_t before, after;
};
Same same_padding(std::int64_t size, std::int64_t kernel, std::int64_t stride) {
  std::int64_t results = (size + stride - 1) / stride;
  std::int64_t total = std::max<std::int64_t>((results - 1) * stride + kernel - size, 0);
  return {total / 2, total - total / 2};
}
Dims same_padding(const Dims& x, std::int64_t kernel, std::int64_t stride) {
  Same h = same_padding(x[2], kernel, stride), w = same_padding(x[3], kernel, stride);
  return {h.before, w.before, h.after, w.after};
}

ValueRef pool(Builder& b, const std::string& name, const char* kind, ValueRef x, std::int64_t stride) {
  Attributes attributes = {Dims{3, 3}, Dims{stride, stride}, same_padding(b.dims(x), 3, stride)};
  if (std::string(kind) == "avg_pool2d") attributes.push_back(std::int64_t{0});  // padding does not count
  return b.apply(kind, std::move(attributes), {x}, name);
}
ValueRef average(Builder& b, const std::string& name, ValueRef x, std::int64_t stride = 1) {
  return pool(b, name, "avg_pool2d", x, stride);
}
ValueRef largest(Builder& b, const std::string& name, ValueRef x, std::int64_t stride) {
  return pool(b, name, "max_pool2d", x, stride);
}

ValueRef relu(Builder& b, ValueRef x) { return b.apply("relu", {}, {x}, "relu"); }

// Depthwise, then 1x1.
ValueRef separable(Builder& b, const std::string& name, ValueRef x, std::int64_t channels, std::int64_t kernel,
                   std::int64_t stride) {
  Builder::Scope scope(b, name);
  Dims d = b.dims(x);
  double scale = std::sqrt(2.0 / static_cast<double>(kernel * kernel));
  ValueRef w = b.weight("depthwise_conv2d.weight", {d[1], 1, kernel, kernel}, "normal", scale);
  Attributes attributes = {Dims{stride, stride}, same_padding(d, kernel, stride), Dims{1, 1}, d[1]};
  x = b.apply("conv2d", std::move(attributes), {x, w}, "depthwise_conv2d");
  return convolution(b, "pointwise_conv2d", x, channels, square(1));
}

// ReLU, separable convolution and batch norm, twice; the stride is the first's. Channels change in the first of a stem,
// in the second elsewhere; only there do they change at all.
ValueRef branch(Builder& b, const std::string& name, ValueRef x, std::int64_t channels, std::int64_t kernel,
                std::int64_t stride = 1) {
  Builder::Scope scope(b, name);
  x = separable(b, "separable_1", relu(b, x), channels, kernel, stride);
  x = batch_norm(b, "bn_sep_1", x, kEpsilon, true);
  return batch_norm(b, "bn_sep_2", separable(b, "separable_2", x, channels, kernel, 1), kEpsilon, false);
}

// ReLU, 1x1 convolution, batch norm.
ValueRef squeeze(Builder& b, const std::string& name, ValueRef x, std::int64_t channels) {
  Builder::Scope scope(b, name);
  return batch_norm(b, "bn", convolution(b, "conv", relu(b, x), channels, square(1)), kEpsilon, false);
}

// Halves the image without losing every second position: one half of the channels reads the even positions, the other
// the odd ones (past the end: zero).
ValueRef factorised_reduction(Builder& b, ValueRef x, std::int64_t channels) {
  Dims d = b.dims(x);
  x = relu(b, x);
  auto path = [&](const std::string& name, ValueRef from, const Dims& padding) {
    Builder::Scope scope(b, name);
    double scale = std::sqrt(2.0 / static_cast<double>(channels / 2));
    ValueRef w = b.weight("conv.weight", {channels / 2, d[1], 1, 1}, "normal", scale);
    return b.apply("conv2d", {Dims{2, 2}, padding}, {from, w}, "conv");
  };
  ValueRef even = path("path_1", x, {0, 0, 0, 0});
  ValueRef shifted = b.apply("slice", {Dims{0, 0, 1, 1}, Dims{d[0], d[1], d[2] - 1, d[3] - 1}}, {x}, "path_2.shift");
  ValueRef odd = path("path_2", shifted, {0, 0, d[2] % 2, d[3] % 2});
  ValueRef both = b.apply("concat", {std::int64_t{1}}, {even, odd}, "final_path");
  return batch_norm(b, "final_path_bn", both, kEpsilon, false);
}

// The two operands of a cell, brought to the same size: left from the cell before the last, right from the last.
struct Operands {
  ValueRef left, right;
};
Operands operands(Builder& b, ValueRef previous, ValueRef x, std::int64_t channels) {
  ValueRef left = b.dims(previous)[2] != b.dims(x)[2] ? factorised_reduction(b, previous, channels)
                                                      : squeeze(b, "conv_prev_1x1", previous, channels);
  return {left, squeeze(b, "conv_1x1", x, channels)};
}

ValueRef add(Builder& b, int combination, ValueRef x, ValueRef y) {
  return b.apply("add", {}, {x, y}, fmt::format("comb_iter_{}", combination));
}

ValueRef normal_cell(Builder& b, const std::string& name, ValueRef previous, ValueRef x, std::int64_t channels) {
  Builder::Scope scope(b, name);
  auto [left, right] = operands(b, previous, x, channels);
  ValueRef y0 =
      add(b, 0, branch(b, "comb_iter_0_left", right, channels, 5), branch(b, "comb_iter_0_right", left, channels, 3));
  ValueRef y1 =
      add(b, 1, branch(b, "comb_iter_1_left", left, channels, 5), branch(b, "comb_iter_1_right", left, channels, 3));
  ValueRef y2 = add(b, 2, average(b, "comb_iter_2_left", right), left);
  ValueRef y3 = add(b, 3, average(b, "comb_iter_3_left", left), average(b, "comb_iter_3_right", left));
  ValueRef y4 = add(b, 4, branch(b, "comb_iter_4_left", right, channels, 3), right);
  return b.apply("concat", {std::int64_t{1}}, {left, y0, y1, y2, y3, y4}, "concat");
}

// What a reduction cell does with its operands, which halves the image.
ValueRef reduce(Builder& b, ValueRef left, ValueRef right, std::int64_t channels) {
  ValueRef y0 = add(b, 0, branch(b, "comb_iter_0_left", right, channels, 5, 2),
                    branch(b, "comb_iter_0_right", left, channels, 7, 2));
  ValueRef y1 =
      add(b, 1, largest(b, "comb_iter_1_left", right, 2), branch(b, "comb_iter_1_right", left, channels, 7, 2));
  ValueRef y2 =
      add(b, 2, average(b, "comb_iter_2_left", right, 2), branch(b, "comb_iter_2_right", left, channels, 5, 2));
  ValueRef y3 = add(b, 3, average(b, "comb_iter_3_right", y0), y1);
  ValueRef y4 = add(b, 4, branch(b, "comb_iter_4_left", y0, channels, 3), largest(b, "comb_iter_4_right", right, 2));
  return b.apply("concat", {std::int64_t{1}}, {y1, y2, y3, y4}, "concat");
}

ValueRef reduction_cell(Builder& b, const std::string& name, ValueRef previous, ValueRef x, std::int64_t channels) {
  Builder::Scope scope(b, name);
  auto [left, right] = operands(b, previous, x, channels);
  return reduce(b, left, right, channels);
}

// The first cell has but one predecessor.
ValueRef stem_cell(Builder& b, ValueRef x, std::int64_t channels) {
  Builder::Scope scope(b, "cell_stem_0");
  return reduce(b, x, squeeze(b, "conv_1x1", x, channels), channels);
}

Pcg build(const std::string& name, const ModelOptions& o) {
  std::int64_t n = o.at("batch"), filters = o.at("filters"), cells = o.at("cells");
  if (filters % 4 != 0)
    throw_input_error("model {}: option 'filters' is {}, expected a multiple of 4, for the stem", name, filters);
  if (o.at("image") < 9)
    throw_input_error("model {}: option 'image' is {}, expected at least 9: cells halve it", name, o.at("image"));
  Builder b(name);
  ValueRef image = b.input("image", {n, 3, o.at("image"), o.at("image")});
  ValueRef labels = b.input("labels", {n}, DType::i32);
  ValueRef stem = convolution(b, "conv0.conv", image, o.at("stem"), square(3, 2));
  stem = batch_norm(b, "conv0.bn", stem, kEpsilon, false);
  ValueRef previous = stem_cell(b, stem, filters / 4);
  ValueRef x = reduction_cell(b, "cell_stem_1", stem, previous, filters / 2);
  auto advance = [&](ValueRef next) { previous = std::exchange(x, next); };
  for (std::int64_t stage = 0; stage < 3; ++stage, filters *= 2) {
    if (stage > 0) advance(reduction_cell(b, fmt::format("reduction_cell_{}", stage - 1), previous, x, filters));
    for (std::int64_t i = 0; i < cells; ++i)
      advance(normal_cell(b, fmt::format("cell_{}", stage * (cells + 2) + i), previous, x, filters));
  }
  x = global_average(b, "avg_pool", relu(b, x));
  ValueRef logits = dense(b, "last_linear", x, o.at("classes"));
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

}  // namespace

std::vector<ModelDefinition> nasnet_models() {
  ModelInfo info{"nasnet-a-mobile",
                 "NASNet-A mobile, 4 @ 1056: a cell takes the results of the two before it",
                 32,
                 {{"batch", 32}, {"image", 224}, {"classes", 1000}, {"filters", 44}, {"cells", 4}, {"stem", 32}},
                 "sgd 0.01",
                 "cross_entropy",
                 {"synthetic", "image folders"}};
  return {{info, [](const ModelOptions& o) { return build("nasnet-a-mobile", o); }}};
}

}  // namespace unity
