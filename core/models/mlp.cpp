// Multi-layer perceptrons without biases: dense layers with ReLU between them, cross-entropy over the classes.
#include "core/models/family.h"

namespace unity {
namespace {

// widths: input, hidden .., classes.
Pcg perceptron(const std::string& name, std::int64_t batch, const Dims& widths) {
  Builder b(name);
  ValueRef h = b.input("x", {batch, widths[0]});
  ValueRef labels = b.input("labels", {batch}, DType::i32);
  h = dense_stack(b, "layer", h, Dims(widths.begin() + 1, widths.end()), {.bias = false}, false);
  return std::move(b).finish({b.apply("cross_entropy", {}, {h, labels}, "loss"), h});
}

// Of Unity's public code: two stacks from inputs of their own, joined by a sum.
Pcg two_branches(const ModelOptions& o) {
  Builder b("mlp@artifact");
  Dims input = {o.at("batch"), o.at("input")}, units(static_cast<std::size_t>(o.at("layers")), o.at("hidden"));
  std::vector<ValueRef> branches;
  for (const std::string name : {"left", "right"}) {
    ValueRef x = b.input(name, input);
    branches.push_back(dense_stack(b, name, x, units, {.bias = false, .init = "glorot"}, false));
  }
  ValueRef labels = b.input("labels", {o.at("batch")}, DType::i32);
  ValueRef logits = b.apply("add", {}, branches, "sum");
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
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
  ModelInfo artifact{"mlp@artifact",
                     "two chains of 8 dense layers of 8192 from inputs of 1024, added (Unity's public code)",
                     256,
                     {{"batch", 256}, {"layers", 8}, {"hidden", 8192}, {"input", 1024}},
                     "sgd 0.01",
                     "cross_entropy",
                     {"synthetic"}};
  return {
      {paper, build},
      {artifact, two_branches},
      small("mlp-mnist", "784-512-10 without biases, the worked example of two layers", 32, 784, "sgd 0.01", "mnist"),
      small("mlp-tiny", "64-512-10 without biases, for the 8x8 digits", 64, 64, "adam 1e-3", "digits")};
}

}  // namespace unity
