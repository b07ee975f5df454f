// BERT (Devlin, Chang, Lee, Toutanova, NAACL 2019): post-norm transformer encoder, exact GELU, without dropout.
// Pre-training graph: masked-language-model head, tied to the word embeddings, with cross-entropy at every position.
// The pooler serves next-sentence prediction alone, so it and that loss are there with option nsp=1 only: a weight that
// no loss reaches could not be trained. Embeddings, encoder and pooler of bert-large have 335,141,888 parameters.
// bert@artifact is the network of that name in the public code of Unity (OSDI 2022): attention and two dense layers, 12
// times, without embeddings, norms, residuals and biases; mean squared error of one number for each position.
#include "core/models/family.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-12;
constexpr std::int64_t kTokenTypes = 2;

struct Bert {
  std::string name;
  std::int64_t vocabulary, ffn_ratio;
  std::int64_t batch, length, layers, hidden, heads;
  bool next_sentence;
};

const DenseOptions kDense = {.bias = true, .init = "normal", .scale = 0.02};

ValueRef table(Builder& b, const std::string& name, Dims shape) {
  return b.weight(name, std::move(shape), "normal", 0.02);
}

// x: [b, s, h]; returns [b, heads, s, h / heads].
ValueRef project_heads(Builder& b, const Bert& m, const std::string& name, ValueRef x, const DenseOptions& options) {
  ValueRef y = dense(b, name, x, m.hidden, options);
  ValueRef split =
      b.apply("reshape", {Dims{m.batch, m.length, m.heads, m.hidden / m.heads}}, {y}, name + ".split_heads");
  return b.apply("transpose", {Dims{0, 2, 1, 3}}, {split}, name + ".transpose");
}

ValueRef attention(Builder& b, const Bert& m, ValueRef x, const DenseOptions& options) {
  Builder::Scope scope(b, "attention");
  ValueRef q = project_heads(b, m, "query", x, options);
  ValueRef k = project_heads(b, m, "key", x, options);
  ValueRef v = project_heads(b, m, "value", x, options);
  ValueRef scores = b.apply("batch_matmul", {std::int64_t{0}, std::int64_t{1}}, {q, k}, "scores");
  double factor = 1 / std::sqrt(static_cast<double>(m.hidden / m.heads));
  ValueRef weights = b.apply("softmax", {}, {b.apply("scale", {factor}, {scores})});
  ValueRef context = b.apply("batch_matmul", {}, {weights, v}, "context");
  ValueRef merged = b.apply("transpose", {Dims{0, 2, 1, 3}}, {context}, "context.transpose");
  merged = b.apply("reshape", {Dims{m.batch, m.length, m.hidden}}, {merged}, "merge_heads");
  return dense(b, "output", merged, m.hidden, options);
}

ValueRef encoder_layer(Builder& b, const Bert& m, ValueRef x) {
  ValueRef attended = b.apply("add", {}, {x, attention(b, m, x, kDense)}, "attention.residual");
  x = layer_norm(b, "attention.norm", attended, kEpsilon);
  ValueRef h = b.apply("gelu", {}, {dense(b, "ffn.in", x, m.ffn_ratio * m.hidden, kDense)}, "ffn.gelu");
  ValueRef y = b.apply("add", {}, {x, dense(b, "ffn.out", h, m.hidden, kDense)}, "ffn.residual");
  return layer_norm(b, "ffn.norm", y, kEpsilon);
}

// Loss of "is the second sentence the next one", from the first position.
ValueRef next_sentence_loss(Builder& b, const Bert& m, ValueRef x, ValueRef labels) {
  ValueRef first = x;
  if (m.length > 1) first = b.results("split", {std::int64_t{1}, Dims{1, m.length - 1}}, {x}, "pooler.split")[0];
  first = b.apply("reshape", {Dims{m.batch, m.hidden}}, {first}, "pooler.first");
  ValueRef pooled = b.apply("tanh", {}, {dense(b, "pooler", first, m.hidden, kDense)}, "pooler.tanh");
  return b.apply("cross_entropy", {}, {dense(b, "nsp", pooled, 2, kDense), labels}, "nsp.loss");
}

void check_heads(const Bert& m) {
  if (m.hidden % m.heads != 0)
    throw_input_error("model {}: option 'heads' is {}, expected a divisor of 'hidden', which is {}", m.name, m.heads,
                      m.hidden);
}

Pcg build(const Bert& m) {
  check_heads(m);
  Builder b(m.name);
  ValueRef tokens = b.input("tokens", {m.batch, m.length}, DType::i32);
  ValueRef types = b.input("token_types", {m.batch, m.length}, DType::i32);
  ValueRef labels = b.input("labels", {m.batch, m.length}, DType::i32);
  ValueRef words = table(b, "embeddings.words", {m.vocabulary, m.hidden});
  ValueRef x = b.apply("embedding", {}, {tokens, words}, "embeddings.word_lookup");
  ValueRef positions = table(b, "embeddings.positions", {m.length, m.hidden});
  x = b.apply("add", {}, {x, positions}, "embeddings.add_positions");
  ValueRef type_table = table(b, "embeddings.types", {kTokenTypes, m.hidden});
  x = b.apply("add", {}, {x, b.apply("embedding", {}, {types, type_table}, "embeddings.type_lookup")},
              "embeddings.add_types");
  x = layer_norm(b, "embeddings.norm", x, kEpsilon);
  for (std::int64_t i = 0; i < m.layers; ++i) {
    Builder::Scope scope(b, fmt::format("encoder.{}", i));
    x = encoder_layer(b, m, x);
  }
  ValueRef h = b.apply("gelu", {}, {dense(b, "head.transform", x, m.hidden, kDense)}, "head.gelu");
  h = layer_norm(b, "head.norm", h, kEpsilon);
  ValueRef logits = b.apply("matmul", {std::string("none"), std::int64_t{1}}, {h, words}, "head.decoder");
  logits = b.apply("add", {}, {logits, b.weight("head.bias", {m.vocabulary}, "zeros")}, "head.add_bias");
  ValueRef loss = b.apply("cross_entropy", {}, {logits, labels}, m.next_sentence ? "head.loss" : "loss");
  if (m.next_sentence) {
    ValueRef next = b.input("next_sentence", {m.batch}, DType::i32);
    loss = b.apply("add", {}, {loss, next_sentence_loss(b, m, x, next)}, "loss");
  }
  return std::move(b).finish({loss, logits});
}

Pcg build_artifact(const ModelOptions& o) {
  Bert m{"bert@artifact", 0, 1, o.at("batch"), o.at("seq-len"), o.at("layers"), o.at("hidden"), o.at("heads"), false};
  check_heads(m);
  const DenseOptions plain = {.bias = false, .init = "glorot"};
  Builder b(m.name);
  ValueRef x = b.input("x", {m.batch, m.length, m.hidden});
  ValueRef label = b.input("label", {m.batch, m.length, 1});
  for (std::int64_t i = 0; i < m.layers; ++i) {
    Builder::Scope scope(b, fmt::format("encoder.{}", i));
    x = dense_stack(b, "ffn", attention(b, m, x, plain), {m.hidden, m.hidden}, plain, false);
  }
  ValueRef y = dense(b, "head", x, 1, plain);
  return std::move(b).finish({b.apply("mean_squared_error", {}, {y, label}, "loss"), y});
}

ModelDefinition definition(const std::string& name, const std::string& description, const Bert& defaults) {
  ModelInfo info{name,
                 description,
                 defaults.batch,
                 {{"batch", defaults.batch},
                  {"seq-len", defaults.length},
                  {"vocab", defaults.vocabulary},
                  {"layers", defaults.layers},
                  {"hidden", defaults.hidden},
                  {"heads", defaults.heads},
                  {"nsp", 0}},
                 "adam 1e-4",
                 "cross_entropy",
                 {"synthetic"}};
  return {info, [=](const ModelOptions& o) {
            return build({name, o.at("vocab"), defaults.ffn_ratio, o.at("batch"), o.at("seq-len"), o.at("layers"),
                          o.at("hidden"), o.at("heads"), o.at("nsp") != 0});
          }};
}

}  // namespace

std::vector<ModelDefinition> bert_models() {
  ModelInfo artifact{
      "bert@artifact",
      "BERT of Unity's public code (12 layers of attention and two dense, no norms, residuals and biases)",
      4,
      {{"batch", 4}, {"seq-len", 512}, {"layers", 12}, {"hidden", 1024}, {"heads", 16}},
      "adam 1e-4",
      "mean_squared_error",
      {"synthetic"}};
  return {{artifact, build_artifact},
          definition("bert-large", "BERT-Large, masked-language-model pre-training (24 layers, hidden 1024, 16 heads)",
                     {"bert-large", 30522, 4, 4, 512, 24, 1024, 16, false}),
          definition("bert-tiny", "a small BERT for tests (2 layers, hidden 64, 4 heads, vocabulary 128)",
                     {"bert-tiny", 128, 2, 12, 16, 2, 64, 4, false})};
}

}  // namespace unity
