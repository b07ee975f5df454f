// XDL's click model (Jiang et al., "XDL: An Industrial Deep Learning Framework for High-Dimensional Sparse Data", 2019)
// in the sizes of Unity (OSDI 2022): sums of rows of a few large tables, concatenated, and a perceptron without biases.
#include "core/models/family.h"

namespace unity {
namespace {

Pcg build(const ModelOptions& o) {
  Builder b("xdl");
  std::int64_t batch = o.at("batch");
  std::vector<ValueRef> ids, features;
  for (std::int64_t i = 0; i < o.at("tables"); ++i)
    ids.push_back(b.input(fmt::format("sparse.{}", i), {batch, 1}, DType::i32));
  ValueRef labels = b.input("labels", {batch}, DType::i32);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Builder::Scope scope(b, fmt::format("embedding.{}", i));
    features.push_back(b.apply("embedding_bag", {}, {ids[i], b.weight("weight", {o.at("rows"), o.at("width")})}));
  }
  ValueRef x = b.apply("concat", {std::int64_t{1}}, features, "concat");
  ValueRef logits =
      dense_stack(b, "layer", x, {o.at("hidden"), o.at("hidden"), 2}, {.bias = false, .init = "glorot"}, false);
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

}  // namespace

std::vector<ModelDefinition> xdl_models() {
  ModelInfo info{"xdl",        "XDL: 4 tables of a million rows of 64, concatenated, 256-256-256-2 without biases",
                 1024,         {{"batch", 1024}, {"tables", 4}, {"rows", 1'000'000}, {"width", 64}, {"hidden", 256}},
                 "sgd 0.01",   "cross_entropy",
                 {"synthetic"}};
  return {{info, build}};
}

}  // namespace unity
