// VGG-16, configuration D of Simonyan and Zisserman (ICLR 2015): 3x3 convolutions with biases and ReLU in five groups,
// each before a max pooling, and three dense layers. Without dropout. Weights have the names of torchvision's vgg16.
#include <cmath>

#include "core/models/image_layers.h"

namespace unity {
namespace {

struct Group {
  std::int64_t channels;
  int convolutions;
};
constexpr std::array<Group, 5> kGroups = {{{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}};

ValueRef features(Builder& b, const std::string& name, ValueRef x, std::int64_t divisor) {
  int layer = 0;  // of the published sequence, in which ReLU and pooling have numbers, too
  auto next = [&] { return fmt::format("features.{}", layer++); };
  for (const Group& group : kGroups) {
    ConvOptions options = square(3, 1, 1);
    options.bias = true;
    for (int i = 0; i < group.convolutions; ++i) {
      x = convolution(b, next(), x, divided(name, group.channels, divisor), options);
      x = b.apply("relu", {}, {x}, next());
    }
    x = max_pool(b, next(), x, 2, 2);
  }
  return x;
}

Pcg build(const std::string& name, const ModelOptions& o) {
  std::int64_t n = o.at("batch"), hidden = o.at("hidden");
  if (o.at("image") < 32)
    throw_input_error("model {}: option 'image' is {}, expected at least 32: five poolings halve it", name,
                      o.at("image"));
  Builder b(name);
  ValueRef x = b.input("image", {n, 3, o.at("image"), o.at("image")});
  ValueRef labels = b.input("labels", {n}, DType::i32);
  x = features(b, name, x, o.at("divisor"));
  Dims d = b.dims(x);
  x = b.apply("reshape", {Dims{n, d[1] * d[2] * d[3]}}, {x}, "classifier.flatten");
  for (int layer : {0, 3}) {
    // Variance 2 / fan_in, for the ReLU behind it.
    double scale = std::sqrt(6.0 / static_cast<double>(b.dims(x).back()));
    x = dense(b, fmt::format("classifier.{}", layer), x, hidden, {.init = "uniform", .scale = scale});
    x = b.apply("relu", {}, {x}, fmt::format("classifier.{}", layer + 1));
  }
  ValueRef logits = dense(b, "classifier.6", x, o.at("classes"), {.init = "normal", .scale = 0.01});
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

}  // namespace

std::vector<ModelDefinition> vgg_models() {
  ModelInfo info{"vgg-16",
                 "VGG-16 (configuration D): 13 convolutions and 3 dense layers",
                 32,
                 {{"batch", 32}, {"image", 224}, {"classes", 1000}, {"hidden", 4096}, {"divisor", 1}},
                 "sgd 0.01",
                 "cross_entropy",
                 {"synthetic", "image folders"}};
  return {{info, [](const ModelOptions& o) { return build("vgg-16", o); }}};
}

}  // namespace unity
