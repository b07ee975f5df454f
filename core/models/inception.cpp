// Inception-v3 (Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, CVPR 2016), with labels as torchvision's inception_v3,
// without dropout; and the network of the same name in the public code of Unity (OSDI 2022), which has biases instead
// of batch norm, a padded convolution in its stem and no auxiliary head.
#include "core/models/image_layers.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-3;
constexpr double kAuxiliaryShare = 0.4;  // of the second loss

// Builds either network, block by block.
class Inception {
 public:
  Inception(std::string name, const ModelOptions& o, bool artifact)
      : name_(std::move(name)), o_(o), b_(name_), artifact_(artifact) {}

  Pcg build() &&;

 private:
  // A convolution with its norm (or bias) and ReLU. Channels are those of the full model.
  ValueRef unit(const std::string& name, ValueRef x, std::int64_t channels, ConvOptions options = {}) {
    Builder::Scope scope(b_, name);
    options.bias = artifact_;
    options.init = artifact_ ? "glorot" : "normal";
    if (!artifact_ && options.scale == 0) options.scale = 0.1;
    x = convolution(b_, "conv", x, divided(name_, channels, o_.at("divisor")), options);
    return artifact_ ? b_.apply("relu", {}, {x}) : batch_norm(b_, "bn", x, kEpsilon, true);
  }

  // 1 x n, or n x 1, with the image's size kept.
  static ConvOptions row(std::int64_t n) { return {.kernel = {1, n}, .padding = {0, n / 2}}; }
  static ConvOptions column(std::int64_t n) { return {.kernel = {n, 1}, .padding = {n / 2, 0}}; }

  ValueRef join(std::vector<ValueRef> branches) { return b_.apply("concat", {std::int64_t{1}}, std::move(branches)); }

  ValueRef stem(ValueRef x);
  ValueRef block_a(const std::string& name, ValueRef x, std::int64_t pool_features);
  ValueRef block_b(const std::string& name, ValueRef x);
  ValueRef block_c(const std::string& name, ValueRef x, std::int64_t channels);
  ValueRef block_d(const std::string& name, ValueRef x);
  ValueRef block_e(const std::string& name, ValueRef x);
  ValueRef auxiliary_loss(ValueRef x, ValueRef labels);
  void check_sizes() const;

  std::string name_;
  const ModelOptions& o_;
  Builder b_;
  bool artifact_;
};

ValueRef Inception::stem(ValueRef x) {
  x = unit("Conv2d_1a_3x3", x, 32, square(3, 2));
  x = unit("Conv2d_2a_3x3", x, 32, square(3));
  x = unit("Conv2d_2b_3x3", x, 64, square(3, 1, 1));
  x = max_pool(b_, "maxpool1", x, 3, 2);
  x = unit("Conv2d_3b_1x1", x, 80);
  x = unit("Conv2d_4a_3x3", x, 192, square(3, 1, artifact_ ? 1 : 0));
  return max_pool(b_, "maxpool2", x, 3, 2);
}

ValueRef Inception::block_a(const std::string& name, ValueRef x, std::int64_t pool_features) {
  Builder::Scope scope(b_, name);
  ValueRef one = unit("branch1x1", x, 64);
  ValueRef five = unit("branch5x5_2", unit("branch5x5_1", x, 48), 64, square(5, 1, 2));
  ValueRef twice = unit("branch3x3dbl_2", unit("branch3x3dbl_1", x, 64), 96, square(3, 1, 1));
  twice = unit("branch3x3dbl_3", twice, 96, square(3, 1, 1));
  return join({one, five, twice, unit("branch_pool", average_pool(b_, "pool", x, 3, 1, 1), pool_features)});
}

ValueRef Inception::block_b(const std::string& name, ValueRef x) {
  Builder::Scope scope(b_, name);
  ValueRef once = unit("branch3x3", x, 384, square(3, 2));
  ValueRef twice = unit("branch3x3dbl_2", unit("branch3x3dbl_1", x, 64), 96, square(3, 1, 1));
  twice = unit("branch3x3dbl_3", twice, 96, square(3, 2));
  return join({once, twice, max_pool(b_, "pool", x, 3, 2)});
}

ValueRef Inception::block_c(const std::string& name, ValueRef x, std::int64_t channels) {
  Builder::Scope scope(b_, name);
  ValueRef one = unit("branch1x1", x, 192);
  ValueRef once = unit("branch7x7_2", unit("branch7x7_1", x, channels), channels, row(7));
  once = unit("branch7x7_3", once, 192, column(7));
  ValueRef twice = unit("branch7x7dbl_2", unit("branch7x7dbl_1", x, channels), channels, column(7));
  twice = unit("branch7x7dbl_4", unit("branch7x7dbl_3", twice, channels, row(7)), channels, column(7));
  twice = unit("branch7x7dbl_5", twice, 192, row(7));
  return join({one, once, twice, unit("branch_pool", average_pool(b_, "pool", x, 3, 1, 1), 192)});
}

ValueRef Inception::block_d(const std::string& name, ValueRef x) {
  Builder::Scope scope(b_, name);
  ValueRef three = unit("branch3x3_2", unit("branch3x3_1", x, 192), 320, square(3, 2));
  ValueRef seven = unit("branch7x7x3_2", unit("branch7x7x3_1", x, 192), 192, row(7));
  seven = unit("branch7x7x3_4", unit("branch7x7x3_3", seven, 192, column(7)), 192, square(3, 2));
  return join({three, seven, max_pool(b_, "pool", x, 3, 2)});
}

ValueRef Inception::block_e(const std::string& name, ValueRef x) {
  Builder::Scope scope(b_, name);
  ValueRef one = unit("branch1x1", x, 320);
  ValueRef once = unit("branch3x3_1", x, 384);
  ValueRef once_row = unit("branch3x3_2a", once, 384, row(3)), once_column = unit("branch3x3_2b", once, 384, column(3));
  ValueRef twice = unit("branch3x3dbl_2", unit("branch3x3dbl_1", x, 448), 384, square(3, 1, 1));
  ValueRef twice_row = unit("branch3x3dbl_3a", twice, 384, row(3));
  ValueRef twice_column = unit("branch3x3dbl_3b", twice, 384, column(3));
  ValueRef pooled = unit("branch_pool", average_pool(b_, "pool", x, 3, 1, 1), 192);
  return join({one, once_row, once_column, twice_row, twice_column, pooled});
}

ValueRef Inception::auxiliary_loss(ValueRef x, ValueRef labels) {
  Builder::Scope scope(b_, "AuxLogits");
  if (b_.dims(x)[2] < 17)
    throw_input_error("model {}: option 'image' is {}, expected at least 299 with the auxiliary head", name_,
                      o_.at("image"));
  x = unit("conv0", average_pool(b_, "pool", x, 5, 3), 128);
  ConvOptions wide = square(5);
  wide.scale = 0.01;
  x = global_average(b_, "avgpool", unit("conv1", x, 768, wide));
  ValueRef logits = dense(b_, "fc", x, o_.at("classes"), {.init = "normal", .scale = 0.001});
  ValueRef loss = b_.apply("cross_entropy", {}, {logits, labels}, "cross_entropy");
  return b_.apply("scale", {kAuxiliaryShare}, {loss});
}

// The smallest image of which every unpadded window still finds a whole place.
void Inception::check_sizes() const {
  std::int64_t least = artifact_ ? 67 : 75;
  if (o_.at("image") < least)
    throw_input_error("model {}: option 'image' is {}, expected at least {}", name_, o_.at("image"), least);
}

Pcg Inception::build() && {
  check_sizes();
  ValueRef x = b_.input("image", {o_.at("batch"), 3, o_.at("image"), o_.at("image")});
  ValueRef labels = b_.input("labels", {o_.at("batch")}, DType::i32);
  x = stem(x);
  x = block_a("Mixed_5b", x, 32);
  x = block_a("Mixed_5c", x, 64);
  x = block_a("Mixed_5d", x, 64);
  x = block_b("Mixed_6a", x);
  x = block_c("Mixed_6b", x, 128);
  x = block_c("Mixed_6c", x, 160);
  x = block_c("Mixed_6d", x, 160);
  x = block_c("Mixed_6e", x, 192);
  ValueRef middle = x;
  x = block_e("Mixed_7b", block_d("Mixed_7a", x));
  x = global_average(b_, "avgpool", block_e("Mixed_7c", x));
  DenseOptions fc;
  if (artifact_)
    fc.init = "glorot";
  else
    fc.init = "normal", fc.scale = 0.1;
  ValueRef logits = dense(b_, "fc", x, o_.at("classes"), fc);
  bool with_auxiliary = !artifact_ && o_.at("aux") != 0;
  ValueRef loss = b_.apply("cross_entropy", {}, {logits, labels}, with_auxiliary ? "fc.loss" : "loss");
  if (with_auxiliary) loss = b_.apply("add", {}, {loss, auxiliary_loss(middle, labels)}, "loss");
  return std::move(b_).finish({loss, logits});
}

ModelDefinition definition(const std::string& name, const std::string& description, bool artifact) {
  ModelInfo info{name,
                 description,
                 64,
                 {{"batch", 64}, {"image", 299}, {"classes", artifact ? 10 : 1000}, {"divisor", 1}},
                 "sgd 0.01",
                 "cross_entropy",
                 {"synthetic", "image folders"}};
  if (!artifact) info.options["aux"] = 0;
  return {info, [=](const ModelOptions& o) { return Inception(name, o, artifact).build(); }};
}

}  // namespace

std::vector<ModelDefinition> inception_models() {
  return {
      definition("inception-v3", "Inception-v3 with batch norm (aux=1: with the auxiliary head and its loss)", false),
      definition("inception-v3@artifact", "Inception-v3 of Unity's public code: biases, no batch norm, 10 classes",
                 true)};
}

}  // namespace unity
