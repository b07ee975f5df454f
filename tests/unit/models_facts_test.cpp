#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/models/summary.h"
#include "tests/support/graph_gradients.h"

using namespace unity;

namespace {

std::int64_t parameters_of(const ModelSummary& summary, const std::string& block) {
  for (const ModelBlock& b : summary.blocks)
    if (b.name == block) return b.facts.parameters * b.count;
  return -1;
}

}  // namespace

TEST_CASE("the paper's MLP has 16 matrices of 8192 x 8192, each used once per sample") {
  ModelSummary s = summarize(build_model({"mlp", {}}));
  CHECK(s.batch == 256);
  CHECK(s.facts.parameters == 1'073'741'824);
  CHECK(s.facts.macs_per_sample == 1'073'741'824);
  CHECK(s.facts.operators == 16 + 15 + 1);
  REQUIRE(s.blocks[0].name == "layer.*");
  CHECK(s.blocks[0].count == 16);
  CHECK(s.blocks[0].facts.parameters == 67'108'864);
}

TEST_CASE("the worked example is 784-512-10 without biases") {
  CHECK(summarize(build_model({"mlp-mnist", {}})).facts.parameters == 784 * 512 + 512 * 10);
}

TEST_CASE("BERT-Large has the published parameters of embeddings, encoder and pooler") {
  ModelSummary s = summarize(build_model({"bert-large", {{"nsp", 1}}}));
  CHECK(parameters_of(s, "embeddings") + parameters_of(s, "encoder.*") + parameters_of(s, "pooler") == 335'141'888);
}

TEST_CASE("BERT-Large's encoder has the published multiply-adds per sample") {
  // Per layer: 12 s h^2 for the dense layers and 2 s^2 h for scores and context.
  for (auto [length, macs] : {std::pair{512, 167.504e9}, {384, 123.212e9}, {128, 39.460e9}}) {
    ModelSummary s = summarize(build_model({"bert-large", {{"seq-len", length}}}));
    auto encoder =
        std::find_if(s.blocks.begin(), s.blocks.end(), [](const ModelBlock& b) { return b.name == "encoder.*"; });
    CHECK(encoder->count == 24);
    CHECK(static_cast<double>(encoder->facts.macs_per_sample * encoder->count) == Approx(macs).epsilon(0.5e-3 / 39.46));
  }
}

TEST_CASE("BERT's decoder is tied to its word embeddings") {
  Pcg pcg = build_model({"bert-tiny", {}});
  int users = 0;
  for (const Node& node : pcg.nodes())
    for (ValueRef v : node.inputs) users += pcg[v.node].name == "embeddings.words" ? 1 : 0;
  CHECK(users == 2);
}

TEST_CASE("every built-in model round-trips through the text form") {
  for (const std::string& name : model_names()) {
    INFO(name);
    Pcg pcg = build_model({name, {}});
    Pcg again = parse_pcg(print(pcg));
    CHECK(canonical_hash(again) == canonical_hash(pcg));
    CHECK(print(again) == print(pcg));
    CHECK(pcg.outputs().size() == 2);
    CHECK(pcg.shape(pcg.outputs()[0]).dims.empty());
    CHECK(pcg[pcg.outputs()[0].node].name == "loss");
  }
}

TEST_CASE("a graph is of its model, with the same inputs, weights and states, however it is rewritten") {
  const ModelSpec spec{"mlp-tiny", {{"batch", 8}}};
  const Pcg pcg = build_model(spec);
  CHECK(check_model(spec, pcg).ok());
  CHECK(check_model({"a-file.yaml", {}}, pcg).ok());  // which may have changed
  CHECK_THAT(check_model({"mlp-tiny", {{"batch", 8}, {"hidden", 100}}}, pcg).error().message,
             Catch::Contains("expected f32[64, 100] as model mlp-tiny with these options has it"));
  CHECK_THAT(check_model({"bert-tiny", {{"batch", 8}}}, pcg).error().message, Catch::StartsWith("the graph has no '"));
}

TEST_CASE("wrong model names and options are refused with the nearest one") {
  CHECK_THROWS_WITH(build_model({"bert-larg", {}}), "unknown model 'bert-larg' (did you mean 'bert-large'?)");
  CHECK_THROWS_WITH(
      build_model({"nets/a.onnx", {}}),
      "model 'nets/a.onnx': found an ONNX file, expected a model file; make one: unity import nets/a.onnx "
      "-o nets/a.yaml");
  CHECK_THROWS_WITH(build_model({"bert-tiny", {{"seqlen", 8}}}),
                    "model bert-tiny: unknown option 'seqlen' (did you mean 'seq-len'?)");
  CHECK_THROWS_WITH(build_model({"mlp", {{"layers", 0}}}), Catch::Contains("option 'layers' is 0, expected 1 to"));
  for (const auto& [model, option] : {std::pair("mlp", "layers"), {"candle-uno", "top-layers"}, {"xdl", "tables"}})
    CHECK_THROWS_WITH(build_model({model, {{option, std::int64_t{1} << 31}}}),
                      Catch::EndsWith("is 2147483648, expected 1 to 10000"));
  CHECK_THROWS_WITH(build_model({"bert-tiny", {{"heads", 5}}}), Catch::Contains("'heads' is 5, expected a divisor of"));
}

TEST_CASE("gradients of a BERT with both of its losses equal central differences") {
  ModelSpec spec{"bert-tiny", {{"batch", 2}, {"seq-len", 3}, {"layers", 1}, {"hidden", 8}, {"heads", 2}, {"nsp", 1}}};
  check_gradients(build_model(spec), 3, 12);
}
