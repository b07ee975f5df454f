// Multi-layer perceptrons without biases: dense layers with ReLU between them, cross-entropy over the classes.
#include "core/models/family.h"

namespace unity {
namespace {

// widths: input, hidden .., classes.
Pcg perceptron(const std::string& name, std::int64_t batch, const Dims& widths) {
  Builder b(name);
  ValueRef h = b.input("x", {batch, widths[0]});
  ValueRef labels = b.input("labels", {batch}, DType::i32);
  for (std::size_t i = 1; i < widths.size(); ++i) {
    h = dense(b, fmt::format("layer.{}", i - 1), h, widths[i], {.bias = false});
    if (i + 1 < widths.size()) h = b.apply("relu", {}, {h}, fmt::format("layer.{}.relu", i - 1));
  }
  return std::move(b).finish({b.apply("cross_entropy", {}, {h, labels}, "loss"), h});
}

ModelDefinition small(const std::string& name, const std::string& description, std::int64_t batch, std::int64_t input,
                      const std::string& optimizer, const std::string& dataset) {
  ModelInfo info{name,
                 description,
                 batch,
                 {{"batch", batch}, {"hidden", 512}},
                 optimizer,
                 "cross_entropy",
                 {dataset, "synthetic"}};
  return {info, [=](const ModelOptions& o) { return perceptron(name, o.at("batch"), {input, o.at("hidden"), 10}); }};
}

}  // namespace

std::vector<ModelDefinition> mlp_models() {
  ModelInfo paper{"mlp",        "chain of 16 dense layers of 8192 with ReLU, no biases (Unity, OSDI 2022)",
                  256,          {{"batch", 256}, {"layers", 16}, {"hidden", 8192}},
                  "sgd 0.01",   "cross_entropy",
                  {"synthetic"}};
  auto build = [](const ModelOptions& o) {
    return perceptron("mlp", o.at("batch"), Dims(static_cast<std::size_t>(o.at("layers")) + 1, o.at("hidden")));
  };
  return {
      {paper, build},
      small("mlp-mnist", "784-512-10 without biases, the worked example of two layers", 32, 784, "sgd 0.01", "mnist"),
      small("mlp-tiny", "64-512-10 without biases, for the 8x8 digits", 64, 64, "adam 1e-3", "digits")};
}

}  // namespace unity
