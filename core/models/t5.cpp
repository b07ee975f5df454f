// T5 (Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", JMLR 2020):
// pre-norm encoder and decoder with RMS norm, no biases, scores without scaling but with a bias for each head and
// bucket of the distance, which all layers of a side share; ReLU; logits from the token embeddings, scaled by 1 /
// sqrt(hidden). Without dropout. Weights have the names of the published state dict.
#include <cmath>

#include "core/models/transformer_layers.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr std::int64_t kBuckets = 32, kMaxDistance = 128;

struct T5 {
  std::int64_t hidden, heads, head_size, ffn, layers;
};

double inverse_root(std::int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); }

DenseOptions plain(double scale) { return {.bias = false, .init = "normal", .scale = scale}; }

// [heads, s, s], to be added to the scores of every layer.
ValueRef position_bias(Builder& b, const T5& m, std::int64_t length, bool bidirectional) {
  Builder::Scope scope(b, "block.0.layer.0.SelfAttention.relative_attention_bias");
  ValueRef buckets =
      b.apply("relative_buckets", {length, length, kBuckets, kMaxDistance, std::int64_t{bidirectional}}, {}, "buckets");
  ValueRef table = b.weight("weight", {kBuckets, m.heads}, "normal", inverse_root(m.hidden));
  ValueRef bias = b.apply("embedding", {}, {buckets, table}, "lookup");
  return b.apply("transpose", {Dims{2, 0, 1}}, {bias}, "transpose");
}

// x + attention(norm(x), memory); memory: of the encoder, or none for x itself.
ValueRef attention(Builder& b, const T5& m, const std::string& name, ValueRef x, std::optional<ValueRef> memory,
                   std::optional<ValueRef> bias, bool causal) {
  ValueRef normed = rms_norm_layer(b, "layer_norm", x, kEpsilon);
  AttentionLayer layer;
  layer.heads = m.heads;
  layer.head_size = m.head_size;
  layer.causal = causal;
  layer.bias = bias;
  layer.query = {"q", plain(inverse_root(m.hidden * m.head_size))};
  layer.key = {"k", plain(inverse_root(m.hidden))};
  layer.value = {"v", plain(inverse_root(m.hidden))};
  layer.output = {"o", plain(inverse_root(m.heads * m.head_size))};
  Builder::Scope scope(b, name);
  ValueRef y = attention_layer(b, layer, normed, memory.value_or(normed));
  return b.apply("add", {}, {x, y}, "residual");
}

ValueRef feed_forward(Builder& b, const T5& m, ValueRef x) {
  ValueRef h = rms_norm_layer(b, "layer_norm", x, kEpsilon);
  Builder::Scope scope(b, "DenseReluDense");
  h = b.apply("relu", {}, {dense(b, "wi", h, m.ffn, plain(inverse_root(m.hidden)))}, "relu");
  return b.apply("add", {}, {x, dense(b, "wo", h, m.hidden, plain(inverse_root(m.ffn)))}, "residual");
}

// The stack of one side; memory: the encoder's result, for the decoder.
ValueRef stack(Builder& b, const T5& m, const std::string& name, ValueRef x, std::optional<ValueRef> memory) {
  Builder::Scope side(b, name);
  bool decoder = memory.has_value();
  ValueRef bias = position_bias(b, m, b.dims(x)[1], !decoder);
  for (std::int64_t i = 0; i < m.layers; ++i) {
    Builder::Scope block(b, fmt::format("block.{}", i));
    int part = 0;
    auto next = [&] { return fmt::format("layer.{}", part++); };
    {
      Builder::Scope scope(b, next());
      x = attention(b, m, "SelfAttention", x, std::nullopt, bias, decoder);
    }
    if (decoder) {
      Builder::Scope scope(b, next());
      x = attention(b, m, "EncDecAttention", x, memory, std::nullopt, false);
    }
    Builder::Scope scope(b, next());
    x = feed_forward(b, m, x);
  }
  return rms_norm_layer(b, "final_layer_norm", x, kEpsilon);
}

Pcg build(const std::string& name, const ModelOptions& o) {
  T5 m{o.at("hidden"), o.at("heads"), o.at("head-size"), o.at("ffn"), o.at("layers")};
  Dims source = {o.at("batch"), o.at("seq-len")}, target = {o.at("batch"), o.at("target-len")};
  Builder b(name);
  ValueRef tokens = b.input("tokens", source, DType::i32);
  ValueRef decoder_tokens = b.input("decoder_tokens", target, DType::i32);
  ValueRef labels = b.input("labels", target, DType::i32);
  ValueRef words = b.weight("shared.weight", {o.at("vocab"), m.hidden}, "normal", 1);
  ValueRef x = b.apply("embedding", {}, {tokens, words}, "encoder.embed_tokens");
  ValueRef memory = stack(b, m, "encoder", x, std::nullopt);
  x = b.apply("embedding", {}, {decoder_tokens, words}, "decoder.embed_tokens");
  x = stack(b, m, "decoder", x, memory);
  x = b.apply("scale", {inverse_root(m.hidden)}, {x}, "lm_head.scale");
  ValueRef logits = b.apply("matmul", {std::string("none"), std::int64_t{1}}, {x, words}, "lm_head");
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

}  // namespace

std::vector<ModelDefinition> t5_models() {
  ModelInfo info{"t5-small",
                 "T5 small, encoder-decoder (6 + 6 layers, hidden 512, 8 heads of 64)",
                 8,
                 {{"batch", 8},
                  {"seq-len", 512},
                  {"target-len", 512},
                  {"layers", 6},
                  {"hidden", 512},
                  {"heads", 8},
                  {"head-size", 64},
                  {"ffn", 2048},
                  {"vocab", 32128}},
                 "adam 1e-4",
                 "cross_entropy",
                 {"synthetic"}};
  return {{info, [](const ModelOptions& o) { return build("t5-small", o); }}};
}

}  // namespace unity
