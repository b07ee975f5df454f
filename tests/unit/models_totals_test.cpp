// The models of the paper and of its public code against published totals of parameters and multiply-adds.
#include <cmath>

#include <catch2/catch.hpp>

#include "core/graph/autodiff.h"
#include "core/models/models.h"
#include "core/models/summary.h"
#include "tests/support/graph_gradients.h"

using namespace unity;

namespace {

struct Total {
  ModelSpec model;
  std::int64_t parameters, macs;
};

// Every model in a size whose reference evaluation takes little.
std::vector<ModelSpec> reduced_models() {
  return {{"bert@artifact", {{"batch", 2}, {"seq-len", 3}, {"layers", 1}, {"hidden", 4}, {"heads", 2}}},
          {"candle-uno", {{"batch", 2}, {"layers", 1}, {"top-layers", 1}, {"hidden", 3}, {"features", 4}}},
          {"dlrm", {{"batch", 2}, {"hidden", 8}, {"width", 2}, {"rows", 3}}},
          {"dlrm@artifact", {{"batch", 2}, {"hidden", 4}, {"width", 2}, {"rows", 3}}},
          {"mlp@artifact", {{"batch", 2}, {"layers", 2}, {"hidden", 4}, {"input", 3}}},
          {"resnext-50", {{"batch", 3}, {"image", 48}, {"classes", 3}, {"divisor", 32}, {"groups", 2}, {"blocks", 1}}},
          {"resnext-50@artifact",
           {{"batch", 2}, {"image", 48}, {"classes", 3}, {"divisor", 32}, {"groups", 2}, {"blocks", 1}}},
          {"xdl", {{"batch", 2}, {"tables", 2}, {"rows", 3}, {"width", 2}, {"hidden", 4}}}};
}

int count_of(const Pcg& pcg, std::string_view op) {
  return static_cast<int>(
      std::count_if(pcg.nodes().begin(), pcg.nodes().end(), [&](const Node& n) { return n.op->name() == op; }));
}

const Node* find(const Pcg& pcg, const std::string& name) {
  for (const Node& node : pcg.nodes())
    if (node.name == name) return &node;
  return nullptr;
}

}  // namespace

TEST_CASE("parameters and multiply-adds per sample are the published ones") {
  // dlrm: 13-512-256-64-16 and 367-512-256-1 multiply 155,136 + 319,232 times. inception-v3 with its head: 5 x 5 places
  // of 768 x 128, then 128 x 768 x 25 and 768 x 1000 more.
  const Total totals[] = {
      {{"bert@artifact", {}}, 75'498'496, 45'097'680'896},
      {{"candle-uno", {}}, 820'948'704, 820'948'704},
      {{"dlrm", {}}, 540'677'217, 474'368},
      {{"dlrm@artifact", {}}, 256'024'960, 24'960},
      {{"inception-v3", {}}, 23'834'568, 5'713'216'096},
      {{"inception-v3", {{"aux", 1}}}, 27'161'264, 5'713'216'096 + 25 * 768 * 128 + 128 * 768 * 25 + 768'000},
      {{"inception-v3@artifact", {}}, 21'788'842, 5'814'145'120},
      {{"mlp", {}}, 1'073'741'824, 1'073'741'824},
      {{"mlp@artifact", {}}, 956'301'312, 956'301'312},
      {{"resnext-50", {}}, 25'028'904, 4'230'479'872},
      {{"resnext-50@artifact", {}}, 22'222'056, 3'870'818'304},
      {{"xdl", {}}, 256'131'584, 131'584},
  };
  for (const Total& t : totals) {
    INFO(t.model.name);
    ModelFacts facts = summarize(build_model(t.model)).facts;
    CHECK(facts.parameters == t.parameters);
    CHECK(facts.macs_per_sample == t.macs);
  }
  CHECK(std::round(4'230'479'872 / 1e5) == 42305);  // torchvision's 4.2305 G and 5.7132 G
  CHECK(std::round(5'713'216'096 / 1e5) == 57132);
}

TEST_CASE("the tables of DLRM hold 33,762,577 rows of 16") {
  for (const ModelBlock& block : summarize(build_model({"dlrm", {}})).blocks)
    if (block.name == "embedding.*") {
      CHECK(block.count == 26);
      CHECK(block.facts.parameters == 540'201'232 / 26);
    }
}

TEST_CASE("multiply-adds per sample don't depend on the batch") {
  for (const std::string name : {"resnext-50", "inception-v3", "dlrm"})
    CHECK(summarize(build_model({name, {{"batch", 4}}})).facts.macs_per_sample ==
          summarize(build_model({name, {}})).facts.macs_per_sample);
}

TEST_CASE("the weights and states of the image models are torchvision's, by number and name") {
  Pcg resnext = build_model({"resnext-50", {}}), inception = build_model({"inception-v3", {{"aux", 1}}});
  CHECK(count_of(resnext, "weight") == 161);
  CHECK(count_of(resnext, "state") == 2 * 53);
  CHECK(count_of(inception, "weight") == 292);
  CHECK(count_of(inception, "state") == 2 * 96);
  for (auto [name, dims] : {std::pair{"conv1.weight", Dims{64, 3, 7, 7}},
                            {"layer1.0.conv2.weight", {128, 4, 3, 3}},
                            {"layer1.0.downsample.0.weight", {256, 64, 1, 1}},
                            {"layer4.2.bn3.running_var", {2048}}}) {
    INFO(name);
    REQUIRE(find(resnext, name));
    CHECK(find(resnext, name)->outputs[0].shape().dims == dims);
  }
  for (auto [name, dims] : {std::pair{"Conv2d_1a_3x3.conv.weight", Dims{32, 3, 3, 3}},
                            {"Mixed_5b.branch5x5_2.conv.weight", {64, 48, 5, 5}},
                            {"Mixed_6b.branch7x7_2.conv.weight", {128, 128, 1, 7}},
                            {"Mixed_7c.branch3x3dbl_3b.bn.running_mean", {384}},
                            {"AuxLogits.conv1.bn.bias", {768}}}) {
    INFO(name);
    REQUIRE(find(inception, name));
    CHECK(find(inception, name)->outputs[0].shape().dims == dims);
  }
}

TEST_CASE("images shrink as published: 7 x 7 of 2048 channels and 8 x 8 of 2048") {
  Pcg resnext = build_model({"resnext-50", {}}), inception = build_model({"inception-v3", {}});
  CHECK(find(resnext, "maxpool")->outputs[0].shape().dims == Dims{64, 64, 56, 56});
  CHECK(find(resnext, "layer4.2.relu")->outputs[0].shape().dims == Dims{64, 2048, 7, 7});
  CHECK(find(inception, "maxpool2")->outputs[0].shape().dims == Dims{64, 192, 35, 35});
  CHECK(find(inception, "Mixed_5b.concat")->outputs[0].shape().dims == Dims{64, 256, 35, 35});
  CHECK(find(inception, "Mixed_6e.concat")->outputs[0].shape().dims == Dims{64, 768, 17, 17});
  CHECK(find(inception, "Mixed_7c.concat")->outputs[0].shape().dims == Dims{64, 2048, 8, 8});
}

TEST_CASE("DLRM's inputs are those of Criteo's data") {
  Pcg pcg = build_model({"dlrm", {}});
  CHECK(count_of(pcg, "input") == 28);
  CHECK(find(pcg, "dense")->outputs[0].shape() == Shape{{1024, 13}, DType::f32});
  CHECK(find(pcg, "sparse.0")->outputs[0].shape() == Shape{{1024, 1}, DType::i32});
  CHECK(find(pcg, "sparse.25")->outputs[0].shape() == Shape{{1024, 1}, DType::i32});
  CHECK(find(pcg, "label")->outputs[0].shape() == Shape{{1024, 1}, DType::f32});
  CHECK(find(pcg, "interaction.features")->outputs[0].shape().dims == Dims{1024, 27, 16});
  CHECK(find(pcg, "interaction.join")->outputs[0].shape().dims == Dims{1024, 367});
}

TEST_CASE("every model has the batch first in its inputs, and differentiates") {
  for (const std::string& name : model_names()) {
    INFO(name);
    Pcg pcg = build_model({name, {{"batch", 6}}});
    for (const Node& node : pcg.nodes())
      if (node.op->name() == "input") CHECK(node.outputs[0].shape().dims.at(0) == 6);
    CHECK(differentiate(pcg).ok());
  }
}

TEST_CASE("gradients of the models in reduced sizes equal central differences") {
  for (const ModelSpec& spec : reduced_models()) {
    INFO(spec.name);
    check_gradients(build_model(spec), 5, 3);
  }
}

TEST_CASE("a smaller Inception keeps its blocks") {
  Pcg pcg = build_model({"inception-v3", {{"batch", 2}, {"image", 75}, {"divisor", 16}, {"classes", 5}}});
  CHECK(find(pcg, "Mixed_7c.concat")->outputs[0].shape().dims == Dims{2, 128, 1, 1});
  CHECK(count_of(pcg, "conv2d") == 94);
  CHECK(differentiate(pcg).ok());
  CHECK(differentiate(build_model({"inception-v3@artifact", {{"batch", 2}, {"image", 67}, {"divisor", 16}}})).ok());
}

TEST_CASE("sizes that don't fit each other are refused") {
  auto refused = [](const ModelSpec& spec, const std::string& message) {
    CHECK_THROWS_WITH(build_model(spec), Catch::Contains("model " + spec.name + ": ") && Catch::Contains(message));
  };
  refused({"resnext-50", {{"divisor", 3}}}, "'divisor' is 3, expected a divisor of 64");
  refused({"resnext-50", {{"divisor", 16}}}, "'groups' is 32, expected a divisor of 8");
  refused({"resnext-50", {{"batch", 1}, {"image", 32}}}, "has no variance, expected a larger batch or image");
  refused({"inception-v3", {{"image", 74}}}, "'image' is 74, expected at least 75");
  refused({"inception-v3", {{"image", 298}, {"aux", 1}}}, "'image' is 298, expected at least 299");
  refused({"inception-v3", {{"divisor", 32}}}, "'divisor' is 32, expected a divisor of");
  refused({"inception-v3@artifact", {{"image", 66}}}, "'image' is 66, expected at least 67");
  refused({"inception-v3@artifact", {{"aux", 1}}}, "unknown option 'aux'");
  refused({"dlrm", {{"hidden", 12}}}, "'hidden' is 12, expected a multiple of 8");
  refused({"bert@artifact", {{"heads", 5}}}, "'heads' is 5, expected a divisor of");
  CHECK_THROWS_WITH(build_model({"xdl@artifact", {}}), Catch::Contains("unknown model 'xdl@artifact'"));
}
