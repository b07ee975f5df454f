// ResNeXt-50 32x4d (Xie, Girshick, Dollar, Tu, He, CVPR 2017), with labels as torchvision's resnext50_32x4d, and the
// network of the same name in the public code of Unity (OSDI 2022), which has biases but neither batch norm nor
// residuals.
#include "core/models/image_layers.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr std::array<std::int64_t, 4> kBlocks = {3, 4, 6, 3};  // of a stage

struct ResNext {
  std::string name;
  std::int64_t batch, image, classes, groups, blocks;
  std::int64_t stem;  // channels of the first convolution
};

ResNext sizes(const std::string& name, const ModelOptions& o) {
  ResNext m{name,
            o.at("batch"),
            o.at("image"),
            o.at("classes"),
            o.at("groups"),
            o.at("blocks"),
            divided(name, 64, o.at("divisor"))};
  if (2 * m.stem % m.groups != 0)
    throw_input_error("model {}: option 'groups' is {}, expected a divisor of {} channels (128 / divisor)", name,
                      m.groups, 2 * m.stem);
  return m;
}

// 1x1 to `width`, 3x3 in groups, 1x1 to 2 width, and the shortcut; the stride is in the 3x3 convolution.
ValueRef bottleneck(Builder& b, const ResNext& m, ValueRef x, std::int64_t width, std::int64_t stride) {
  ValueRef y = batch_norm(b, "bn1", convolution(b, "conv1", x, width, {}), kEpsilon, true);
  y = batch_norm(b, "bn2", convolution(b, "conv2", y, width, square(3, stride, 1, m.groups)), kEpsilon, true);
  y = batch_norm(b, "bn3", convolution(b, "conv3", y, 2 * width, {}), kEpsilon, false);
  if (b.dims(x) != b.dims(y)) {
    Builder::Scope scope(b, "downsample");
    x = batch_norm(b, "1", convolution(b, "0", x, 2 * width, square(1, stride)), kEpsilon, false);
  }
  return b.apply("relu", {}, {b.apply("add", {}, {y, x}, "residual")}, "relu");
}

ConvOptions biased(ConvOptions options) {
  options.bias = true;
  options.init = "glorot";
  return options;
}

ValueRef convolution_relu(Builder& b, const std::string& name, ValueRef x, std::int64_t channels, ConvOptions options) {
  return b.apply("relu", {}, {convolution(b, name, x, channels, biased(std::move(options)))}, name + ".relu");
}

ValueRef artifact_block(Builder& b, const ResNext& m, ValueRef x, std::int64_t width, std::int64_t stride) {
  x = convolution_relu(b, "conv1", x, width, {});
  x = convolution_relu(b, "conv2", x, width, square(3, stride, 1, m.groups));
  return b.apply("relu", {}, {convolution(b, "conv3", x, 2 * width, biased({}))}, "relu");
}

template <class Block>
ValueRef stages(Builder& b, const ResNext& m, ValueRef x, Block block) {
  std::int64_t width = 2 * m.stem;
  for (std::size_t stage = 0; stage < kBlocks.size(); ++stage, width *= 2)
    for (std::int64_t i = 0; i < std::min(kBlocks[stage], m.blocks); ++i) {
      Builder::Scope scope(b, fmt::format("layer{}.{}", stage + 1, i));
      x = block(b, m, x, width, stage > 0 && i == 0 ? 2 : 1);
    }
  return x;
}

Pcg build(const ResNext& m, bool artifact) {
  Builder b(m.name);
  ValueRef x = b.input("image", {m.batch, 3, m.image, m.image});
  ValueRef labels = b.input("labels", {m.batch}, DType::i32);
  x = artifact ? convolution_relu(b, "conv1", x, m.stem, square(7, 2, 3))
               : batch_norm(b, "bn1", convolution(b, "conv1", x, m.stem, square(7, 2, 3)), kEpsilon, true);
  x = max_pool(b, "maxpool", x, 3, 2, 1);
  x = artifact ? stages(b, m, x, artifact_block) : stages(b, m, x, bottleneck);
  ValueRef logits = dense(b, "fc", global_average(b, "avgpool", x), m.classes);
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

ModelDefinition definition(const std::string& name, const std::string& description, bool artifact) {
  ModelInfo info{name,
                 description,
                 64,
                 {{"batch", 64}, {"image", 224}, {"classes", 1000}, {"divisor", 1}, {"groups", 32}, {"blocks", 6}},
                 "sgd 0.01",
                 "cross_entropy",
                 {"synthetic", "image folders"}};
  return {info, [=](const ModelOptions& o) { return build(sizes(name, o), artifact); }};
}

}  // namespace

std::vector<ModelDefinition> resnext_models() {
  return {definition("resnext-50", "ResNeXt-50 32x4d with batch norm and residuals (blocks: at most so many a stage)",
                     false),
          definition("resnext-50@artifact", "ResNeXt-50 of Unity's public code: biases, no batch norm, no residuals",
                     true)};
}

}  // namespace unity
