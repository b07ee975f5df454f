// ResNet-50 (He, Zhang, Ren, Sun, CVPR 2016) in the common form with the stride in the 3x3 convolution of a block, not
// in the first 1x1 (4.09 instead of 3.86 GMACs). Weights have the names of torchvision's resnet50.
#include <algorithm>

#include "core/models/image_layers.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr std::array<std::int64_t, 4> kBlocks = {3, 4, 6, 3};  // of a stage
constexpr std::int64_t kExpansion = 4;

// relu(x + 1x1, 3x3 and 1x1 convolution of x), the last to 4 width; x through a 1x1 convolution where its size changes.
ValueRef bottleneck(Builder& b, ValueRef x, std::int64_t width, std::int64_t stride) {
  ValueRef y = batch_norm(b, "bn1", convolution(b, "conv1", x, width, square(1)), kEpsilon, true);
  y = batch_norm(b, "bn2", convolution(b, "conv2", y, width, square(3, stride, 1)), kEpsilon, true);
  y = batch_norm(b, "bn3", convolution(b, "conv3", y, kExpansion * width, square(1)), kEpsilon, false);
  if (b.dims(x) != b.dims(y)) {
    Builder::Scope scope(b, "downsample");
    x = batch_norm(b, "1", convolution(b, "0", x, kExpansion * width, square(1, stride)), kEpsilon, false);
  }
  return b.apply("relu", {}, {b.apply("add", {}, {y, x}, "residual")}, "relu");
}

Pcg build(const std::string& name, const ModelOptions& o) {
  std::int64_t n = o.at("batch"), width = divided(name, 64, o.at("divisor"));
  Builder b(name);
  ValueRef x = b.input("image", {n, 3, o.at("image"), o.at("image")});
  ValueRef labels = b.input("labels", {n}, DType::i32);
  x = batch_norm(b, "bn1", convolution(b, "conv1", x, width, square(7, 2, 3)), kEpsilon, true);
  x = max_pool(b, "maxpool", x, 3, 2, 1);
  for (std::size_t stage = 0; stage < kBlocks.size(); ++stage, width *= 2)
    for (std::int64_t i = 0; i < std::min(kBlocks[stage], o.at("blocks")); ++i) {
      Builder::Scope scope(b, fmt::format("layer{}.{}", stage + 1, i));
      x = bottleneck(b, x, width, stage > 0 && i == 0 ? 2 : 1);
    }
  ValueRef logits = dense(b, "fc", global_average(b, "avgpool", x), o.at("classes"));
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

}  // namespace

std::vector<ModelDefinition> resnet_models() {
  ModelInfo info{"resnet-50",
                 "ResNet-50 with the stride in the 3x3 convolutions (blocks: at most so many a stage)",
                 64,
                 {{"batch", 64}, {"image", 224}, {"classes", 1000}, {"divisor", 1}, {"blocks", 6}},
                 "sgd 0.01",
                 "cross_entropy",
                 {"synthetic", "image folders"}};
  return {{info, [](const ModelOptions& o) { return build("resnet-50", o); }}};
}

}  // namespace unity
