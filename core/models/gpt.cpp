// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): pre-norm transformer decoder,
// learnt positions, GELU approximated by tanh, head tied to the token embeddings; next-token cross-entropy; without
// dropout. Weights have the names of the published state dict, but for c_attn, which is q, k and v (see
// AttentionLayer).
//
// moe-transformer: the same decoder with a Switch mixture of experts (see mixture.h) as every second feed-forward
// layer.
#include <cmath>

#include "core/models/mixture.h"
#include "core/models/transformer_layers.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-5, kScale = 0.02, kBalanceWeight = 0.01;

struct Decoder {
  std::string name;
  std::int64_t hidden, ffn, layers;
  AttentionLayer attention;
  std::int64_t experts = 0, capacity = 0;  // none: no mixtures
  bool balance = false;
  std::vector<ValueRef> balance_losses;
};

// Weights of the layers that end in a residual connection start smaller, by the square root of their number.
double residual_scale(std::int64_t layers) { return kScale / std::sqrt(2 * static_cast<double>(layers)); }

ValueRef feed_forward(Builder& b, const Decoder& m, ValueRef x) {
  Builder::Scope scope(b, "mlp");
  ValueRef h = gelu_tanh(b, dense(b, "c_fc", x, m.ffn, {.init = "normal", .scale = kScale}), "gelu");
  return dense(b, "c_proj", h, m.hidden, {.init = "normal", .scale = residual_scale(m.layers)});
}

ValueRef mixture(Builder& b, Decoder& m, ValueRef x) {
  SwitchLayer layer{m.experts, m.capacity, m.ffn, kScale, residual_scale(m.layers)};
  SwitchResult result = switch_layer(b, "moe", layer, x, m.balance);
  if (m.balance) m.balance_losses.push_back(result.balance);
  return result.y;
}

ValueRef decoder_layer(Builder& b, Decoder& m, std::int64_t i, ValueRef x) {
  Builder::Scope scope(b, fmt::format("h.{}", i));
  ValueRef normed = norm_layer(b, "ln_1", x, kEpsilon);
  ValueRef attended = [&] {
    Builder::Scope attention(b, "attn");
    return attention_layer(b, m.attention, normed, normed);
  }();
  x = b.apply("add", {}, {x, attended}, "attn.residual");
  normed = norm_layer(b, "ln_2", x, kEpsilon);
  ValueRef y = m.experts > 0 && i % 2 == 1 ? mixture(b, m, normed) : feed_forward(b, m, normed);
  return b.apply("add", {}, {x, y}, "mlp.residual");
}

Pcg build(Decoder m, const ModelOptions& o) {
  std::int64_t vocabulary = o.at("vocab");
  Builder b(m.name);
  Dims size = {o.at("batch"), o.at("seq-len")};
  ValueRef tokens = b.input("tokens", size, DType::i32), labels = b.input("labels", size, DType::i32);
  ValueRef x, words;
  {
    Builder::Scope scope(b, "transformer");
    words = b.weight("wte.weight", {vocabulary, m.hidden}, "normal", kScale);
    ValueRef positions = b.weight("wpe.weight", {size[1], m.hidden}, "normal", kScale / 2);
    x = b.apply("add", {}, {b.apply("embedding", {}, {tokens, words}, "wte.lookup"), positions}, "wpe.add");
    for (std::int64_t i = 0; i < m.layers; ++i) x = decoder_layer(b, m, i, x);
    x = norm_layer(b, "ln_f", x, kEpsilon);
  }
  ValueRef logits = b.apply("matmul", {std::string("none"), std::int64_t{1}}, {x, words}, "lm_head");
  ValueRef loss = b.apply("cross_entropy", {}, {logits, labels}, m.balance_losses.empty() ? "loss" : "lm_loss");
  for (std::size_t i = 0; i < m.balance_losses.size(); ++i) {
    ValueRef weighted = b.apply("scale", {kBalanceWeight}, {m.balance_losses[i]}, "balance");
    loss = b.apply("add", {}, {loss, weighted}, i + 1 == m.balance_losses.size() ? "loss" : "add_balance");
  }
  return std::move(b).finish({loss, logits});
}

Decoder decoder(const std::string& name, const ModelOptions& o) {
  expect_divisor(name, o, "heads", "hidden");
  std::int64_t hidden = o.at("hidden"), layers = o.at("layers");
  Decoder m{name, hidden, 4 * hidden, layers, {}, 0, 0, false, {}};
  DenseOptions dense{.init = "normal", .scale = kScale};
  m.attention.heads = o.at("heads");
  m.attention.head_size = hidden / o.at("heads");
  m.attention.scale = 1 / std::sqrt(static_cast<double>(m.attention.head_size));
  m.attention.causal = true;
  m.attention.fused = o.at("fused") != 0;
  m.attention.query = {"q", dense};
  m.attention.key = {"k", dense};
  m.attention.value = {"v", dense};
  m.attention.output = {"c_proj", {.init = "normal", .scale = residual_scale(layers)}};
  return m;
}

ModelInfo info(const std::string& name, const std::string& description, std::int64_t batch, std::int64_t layers,
               std::int64_t hidden, std::int64_t heads) {
  return {name,
          description,
          batch,
          {{"batch", batch},
           {"seq-len", 1024},
           {"layers", layers},
           {"hidden", hidden},
           {"heads", heads},
           {"vocab", 50257},
           {"fused", 0}},
          "adam 2.5e-4",
          "cross_entropy",
          {"synthetic"}};
}

ModelDefinition gpt2(const std::string& size, std::int64_t batch, std::int64_t layers, std::int64_t hidden,
                     std::int64_t heads) {
  std::string name = "gpt2-" + size;
  std::string description =
      fmt::format("GPT-2 {} ({} layers, hidden {}, {} heads), next-token prediction", size, layers, hidden, heads);
  return {info(name, description, batch, layers, hidden, heads),
          [=](const ModelOptions& o) { return build(decoder(name, o), o); }};
}

ModelDefinition moe_transformer() {
  ModelInfo i =
      info("moe-transformer", "GPT-2 small with a Switch mixture of 8 experts in every second layer", 4, 12, 768, 12);
  i.options.insert({{"experts", 8}, {"capacity", 0}, {"balance", 0}});
  return {i, [](const ModelOptions& o) {
            Decoder m = decoder("moe-transformer", o);
            m.experts = o.at("experts");
            // The paper's capacity factor of 1.25, rounded up.
            m.capacity =
                o.at("capacity") > 0 ? o.at("capacity") : (5 * o.at("seq-len") + 4 * m.experts - 1) / (4 * m.experts);
            m.balance = o.at("balance") != 0;
            return build(std::move(m), o);
          }};
}

}  // namespace

std::vector<ModelDefinition> gpt_models() {
  return {gpt2("small", 4, 12, 768, 12), gpt2("medium", 2, 24, 1024, 16), gpt2("xl", 1, 48, 1600, 25),
          moe_transformer()};
}

}  // namespace unity
