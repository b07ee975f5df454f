// Language and vision models: published sizes, and small instances that compute.
#include <cmath>
#include <numbers>
#include <set>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/models/summary.h"
#include "core/models/transformer_layers.h"
#include "tests/support/graph_gradients.h"

using namespace unity;

namespace {

ModelFacts facts(const std::string& name, std::map<std::string, std::int64_t> options = {}) {
  return summarize(build_model({name, std::move(options)})).facts;
}

struct Small {
  ModelSpec spec;
  int classes;
};
const std::vector<Small> kSmall = {
    {{"gpt2-small", {{"batch", 2}, {"seq-len", 3}, {"layers", 2}, {"hidden", 8}, {"heads", 2}, {"vocab", 11}}}, 11},
    {{"moe-transformer",
      {{"batch", 2},
       {"seq-len", 5},
       {"layers", 2},
       {"hidden", 8},
       {"heads", 2},
       {"vocab", 11},
       {"experts", 3},
       {"balance", 1}}},
     11},
    {{"t5-small",
      {{"batch", 2},
       {"seq-len", 4},
       {"target-len", 3},
       {"layers", 2},
       {"hidden", 8},
       {"heads", 2},
       {"head-size", 3},
       {"ffn", 6},
       {"vocab", 11}}},
     11},
    {{"vit-b16",
      {{"batch", 2}, {"image", 8}, {"patch", 4}, {"layers", 1}, {"hidden", 8}, {"heads", 2}, {"classes", 5}}},
     5},
    {{"vgg-16", {{"batch", 2}, {"image", 32}, {"classes", 5}, {"hidden", 8}, {"divisor", 32}}}, 5},
    {{"resnet-50", {{"batch", 2}, {"image", 48}, {"classes", 5}, {"divisor", 32}, {"blocks", 1}}}, 5},
    {{"nasnet-a-mobile", {{"batch", 2}, {"image", 40}, {"classes", 5}, {"filters", 4}, {"cells", 1}, {"stem", 4}}}, 5}};

// Whether the part of the graph between the first input and the loss is series-parallel with these as its terminals:
// removing nodes with one edge in and one out, and repeated edges, in any order, leaves a single edge.
bool series_parallel(const Pcg& pcg) {
  std::size_t last = pcg.outputs()[0].node.index(), first = 0;
  while (pcg.nodes()[first].op->name() != "input") ++first;
  std::vector<std::set<std::size_t>> in(pcg.size()), out(pcg.size());
  for (std::size_t n = first + 1; n < pcg.size(); ++n)
    for (ValueRef v : pcg.nodes()[n].inputs)
      if (v.node.index() == first || !in[v.node.index()].empty()) in[n].insert(v.node.index());
  for (std::size_t n = pcg.size(); n-- > 0;)
    for (std::size_t from : in[n])
      if (n == last || !out[n].empty()) out[from].insert(n);
  for (std::size_t n = 0; n < pcg.size(); ++n)
    if (n != last && out[n].empty()) in[n].clear();
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t n = 0; n < pcg.size(); ++n) {
      if (in[n].size() != 1 || out[n].size() != 1) continue;
      std::size_t from = *in[n].begin(), to = *out[n].begin();
      out[from].erase(n), in[to].erase(n);
      out[from].insert(to), in[to].insert(from);
      in[n].clear(), out[n].clear();
      changed = true;
    }
  }
  return in[last] == std::set{first} && out[first] == std::set{last};
}

// Logits of the first `rows` positions of every sequence.
std::vector<double> early_logits(const Pcg& pcg, const LeafValues& leaves, std::int64_t rows) {
  LogicalTensor logits = evaluate_outputs(pcg, leaves)[1];
  const Dims& d = logits.shape().dims;
  std::vector<double> values;
  for (std::int64_t i = 0; i < logits.elements(); ++i)
    if (i / d[2] % d[1] < rows) values.push_back(logits.number(i));
  return values;
}

}  // namespace

TEST_CASE("language models have the published number of parameters") {
  CHECK(facts("gpt2-small").parameters == 124'439'808);
  CHECK(facts("gpt2-medium").parameters == 354'823'168);
  CHECK(facts("gpt2-xl").parameters == 1'557'611'200);
  CHECK(facts("t5-small").parameters == 60'506'624);
}

TEST_CASE("image models have the published number of parameters") {
  CHECK(facts("vgg-16").parameters == 138'357'544);
  CHECK(facts("resnet-50").parameters == 25'557'032);
  CHECK(facts("vit-b16").parameters == 86'567'656);
  CHECK(facts("nasnet-a-mobile").parameters == 5'289'978);
}

TEST_CASE("image models have the published multiply-adds, with the two products of attention and padding counted") {
  CHECK(static_cast<double>(facts("vgg-16").macs_per_sample) == Approx(15.47e9).epsilon(1e-3));
  CHECK(static_cast<double>(facts("resnet-50").macs_per_sample) == Approx(4.09e9).epsilon(1e-3));
  CHECK(static_cast<double>(facts("vit-b16").macs_per_sample) == Approx(17.56e9).epsilon(1e-3));
  CHECK(static_cast<double>(facts("nasnet-a-mobile").macs_per_sample) == Approx(564e6).epsilon(1e-3));
}

TEST_CASE("GPT-2's multiply-adds follow from its sizes") {
  // Per layer: 12 s h^2 for the dense layers and 2 s^2 h for scores and context; s h V for the head.
  std::int64_t s = 1024, h = 768;
  CHECK(facts("gpt2-small").macs_per_sample == 12 * (12 * s * h * h + 2 * s * s * h) + s * h * 50257);
}

TEST_CASE("six mixtures of eight experts replace feed-forward layers of GPT-2") {
  // A feed-forward layer has 8 h^2 weights and 5 h biases; a mixture has 8 times 8 h^2 weights and the router's 8 h.
  std::int64_t h = 768;
  CHECK(facts("moe-transformer").parameters == 124'439'808 + 6 * (7 * 8 * h * h + 3 * h));
}

TEST_CASE("small language and image models start with a loss near that of a guess") {
  for (const Small& small : kSmall) {
    INFO(small.spec.name);
    Pcg pcg = build_model(small.spec);
    double loss = evaluate_outputs(pcg, random_leaves(pcg, {.seed = 5}))[0].number(0);
    // T5's logits have a standard deviation of about 1, and there are as few as two labels.
    CHECK(loss == Approx(std::log(small.classes)).margin(1.5));
  }
}

TEST_CASE("gradients of small language and image models equal central differences") {
  for (const Small& small : kSmall) {
    INFO(small.spec.name);
    check_gradients(build_model(small.spec), 5, 1);
  }
}

TEST_CASE("the first dimension of every input is the batch") {
  for (const Small& small : kSmall) {
    INFO(small.spec.name);
    Pcg pcg = build_model(small.spec);
    for (const Node& node : pcg.nodes())
      if (node.op->name() == "input") CHECK(node.outputs[0].dims[0].size == 2);
  }
}

TEST_CASE("fused attention computes what its parts compute") {
  for (std::size_t model : {0, 3}) {
    ModelSpec spec = kSmall[model].spec;
    INFO(spec.name);
    Pcg parts = build_model(spec);
    spec.options["fused"] = 1;
    Pcg fused = build_model(spec);
    LeafValues leaves = random_leaves(parts, {.seed = 3});
    CHECK(evaluate_outputs(fused, leaves)[0].number(0) ==
          Approx(evaluate_outputs(parts, leaves)[0].number(0)).epsilon(1e-12));
    CHECK(fused.size() < parts.size());
  }
}

TEST_CASE("a decoder's prediction does not depend on later tokens") {
  for (auto [model, tokens] : {std::pair{0, "tokens"}, {1, "tokens"}, {2, "decoder_tokens"}}) {
    Pcg pcg = build_model(kSmall[static_cast<std::size_t>(model)].spec);
    INFO(pcg.name());
    LeafValues leaves = random_leaves(pcg, {.seed = 3});
    std::int64_t length = leaves.at(tokens).shape().dims[1];
    std::vector<double> before = early_logits(pcg, leaves, length - 1), all = early_logits(pcg, leaves, length);
    std::int32_t& token = leaves.at(tokens).as<std::int32_t>()[length - 1];
    token = (token + 1) % 11;
    CHECK(early_logits(pcg, leaves, length - 1) == before);
    CHECK(early_logits(pcg, leaves, length) != all);
  }
}

TEST_CASE("gelu_tanh is the approximation by tanh") {
  Builder b("gelu");
  Pcg pcg = std::move(b).finish({gelu_tanh(b, b.input("x", {7}), "gelu")});
  LeafValues leaves = random_leaves(pcg, {.seed = 1});
  LogicalTensor y = evaluate_outputs(pcg, leaves)[0];
  for (std::int64_t i = 0; i < 7; ++i) {
    double x = leaves.at("x").number(i);
    CHECK(y.number(i) == Approx(x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)))));
  }
}

TEST_CASE("NASNet is not series-parallel, other image models are") {
  // A normal cell reads its two predecessors, so no node but those outside of all cells carries all paths, and the
  // ladder of such jumps has no series or parallel part left to reduce.
  CHECK_FALSE(series_parallel(build_model({"nasnet-a-mobile", {}})));
  CHECK(series_parallel(build_model({"vgg-16", {}})));
  CHECK(series_parallel(build_model({"resnet-50", {}})));
  CHECK(series_parallel(build_model({"vit-b16", {}})));
}

TEST_CASE("sizes that do not fit each other are refused, saying so") {
  auto error = [](const std::string& model, std::map<std::string, std::int64_t> options) -> std::string {
    try {
      build_model({model, std::move(options)});
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  CHECK(error("gpt2-small", {{"heads", 7}}) ==
        "model gpt2-small: option 'heads' is 7, expected a divisor of 'hidden', which is 768");
  CHECK(error("vit-b16", {{"image", 100}}) ==
        "model vit-b16: option 'patch' is 16, expected a divisor of 'image', which is 100");
  CHECK(error("vgg-16", {{"image", 31}}) ==
        "model vgg-16: option 'image' is 31, expected at least 32: five poolings halve it");
  CHECK(error("resnet-50", {{"divisor", 3}}) ==
        "model resnet-50: option 'divisor' is 3, expected a divisor of 64 channels");
  CHECK(error("nasnet-a-mobile", {{"filters", 6}}) ==
        "model nasnet-a-mobile: option 'filters' is 6, expected a multiple of 4, for the stem");
  CHECK(error("nasnet-a-mobile", {{"image", 8}}) ==
        "model nasnet-a-mobile: option 'image' is 8, expected at least 9: cells halve it");
}
