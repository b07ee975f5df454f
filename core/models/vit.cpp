// ViT-B/16 (Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021): patches of the image and a class token as
// a sequence with learnt positions, pre-norm encoder, exact GELU; classes from the class token. Without dropout.
// Weights have the names of timm's state dict, but for attn.qkv, which is q, k and v (see AttentionLayer).
#include <cmath>

#include "core/models/image_layers.h"
#include "core/models/transformer_layers.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-6, kScale = 0.02;
const DenseOptions kDense = {.bias = true, .init = "normal", .scale = kScale};

// [n, 3, image, image] to [n, 1 + patches, hidden]; place 0 is the class token's.
ValueRef embed(Builder& b, ValueRef image, std::int64_t patch, std::int64_t hidden) {
  ConvOptions tiles = square(patch, patch);
  tiles.bias = true, tiles.init = "normal", tiles.scale = 1 / std::sqrt(3.0 * static_cast<double>(patch * patch));
  ValueRef x = convolution(b, "patch_embed.proj", image, hidden, tiles);
  Dims d = b.dims(x);
  std::int64_t patches = d[2] * d[3];
  x = b.apply("reshape", {Dims{d[0], hidden, patches}}, {x}, "patch_embed.flatten");
  x = b.apply("transpose", {Dims{0, 2, 1}}, {x}, "patch_embed.transpose");
  x = b.apply("pad", {Dims{0, 1, 0}, Dims{0, 0, 0}}, {x}, "patch_embed.pad");
  ValueRef token = b.weight("cls_token", {1, hidden}, "normal", kScale);
  token = b.apply("pad", {Dims{0, 0}, Dims{patches, 0}}, {token}, "cls_token.pad");
  ValueRef places = b.weight("pos_embed", {patches + 1, hidden}, "normal", kScale);
  return b.apply("add", {}, {x, b.apply("add", {}, {token, places}, "pos_embed.sum")}, "pos_embed.add");
}

ValueRef encoder_layer(Builder& b, const AttentionLayer& attention, std::int64_t ffn, ValueRef x) {
  ValueRef normed = norm_layer(b, "norm1", x, kEpsilon);
  ValueRef attended = [&] {
    Builder::Scope scope(b, "attn");
    return attention_layer(b, attention, normed, normed);
  }();
  x = b.apply("add", {}, {x, attended}, "attn.residual");
  ValueRef h = dense(b, "mlp.fc1", norm_layer(b, "norm2", x, kEpsilon), ffn, kDense);
  h = b.apply("gelu", {}, {h}, "mlp.gelu");
  return b.apply("add", {}, {x, dense(b, "mlp.fc2", h, b.dims(x).back(), kDense)}, "mlp.residual");
}

Pcg build(const std::string& name, const ModelOptions& o) {
  expect_divisor(name, o, "patch", "image");
  expect_divisor(name, o, "heads", "hidden");
  std::int64_t n = o.at("batch"), hidden = o.at("hidden"), heads = o.at("heads"), layers = o.at("layers");
  AttentionLayer attention;
  attention.heads = heads;
  attention.head_size = hidden / heads;
  attention.scale = 1 / std::sqrt(static_cast<double>(hidden / heads));
  attention.fused = o.at("fused") != 0;
  attention.query = {"q", kDense};
  attention.key = {"k", kDense};
  attention.value = {"v", kDense};
  attention.output = {"proj", kDense};
  Builder b(name);
  ValueRef image = b.input("image", {n, 3, o.at("image"), o.at("image")});
  ValueRef labels = b.input("labels", {n}, DType::i32);
  ValueRef x = embed(b, image, o.at("patch"), hidden);
  for (std::int64_t i = 0; i < layers; ++i) {
    Builder::Scope scope(b, fmt::format("blocks.{}", i));
    x = encoder_layer(b, attention, 4 * hidden, x);
  }
  x = norm_layer(b, "norm", x, kEpsilon);
  x = b.apply("slice", {Dims{0, 0, 0}, Dims{n, 1, hidden}}, {x}, "norm.class_token");
  x = b.apply("reshape", {Dims{n, hidden}}, {x}, "norm.flatten");
  ValueRef logits = dense(b, "head", x, o.at("classes"), kDense);
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

}  // namespace

std::vector<ModelDefinition> vit_models() {
  ModelInfo info{"vit-b16",
                 "ViT-B/16, image classification (12 layers, hidden 768, 12 heads, patches of 16 x 16)",
                 16,
                 {{"batch", 16},
                  {"image", 224},
                  {"patch", 16},
                  {"layers", 12},
                  {"hidden", 768},
                  {"heads", 12},
                  {"classes", 1000},
                  {"fused", 0}},
                 "adam 3e-4",
                 "cross_entropy",
                 {"synthetic", "image folders"}};
  return {{info, [](const ModelOptions& o) { return build("vit-b16", o); }}};
}

}  // namespace unity
