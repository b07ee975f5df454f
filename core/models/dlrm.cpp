// DLRM (Naumov et al., "Deep Learning Recommendation Model", 2019) as published for the Criteo Kaggle click logs, and
// the network of the same name in the public code of Unity (OSDI 2022), which joins its features by concatenation and
// has no biases.
#include <cmath>

#include "core/models/family.h"

namespace unity {
namespace {

// Rows of the 26 categories of the Criteo Kaggle data, 33,762,577 in all.
const Dims kCriteoRows = {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                          93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                          2173,  4,    7046547,  18,      15,  286181, 105,     142572};

// Sums of rows of the tables, one table for each input "sparse.<i>"; `rows` above 0 caps the rows of each.
std::vector<ValueRef> lookups(Builder& b, std::int64_t batch, const Dims& tables, std::int64_t width,
                              std::int64_t rows) {
  std::vector<ValueRef> ids, features;
  for (std::size_t i = 0; i < tables.size(); ++i)
    ids.push_back(b.input(fmt::format("sparse.{}", i), {batch, 1}, DType::i32));
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Builder::Scope scope(b, fmt::format("embedding.{}", i));
    ValueRef table = b.weight("weight", {rows > 0 ? std::min(rows, tables[i]) : tables[i], width});
    features.push_back(b.apply("embedding_bag", {}, {ids[i], table}));
  }
  return features;
}

// As published: weights normal with variance 2 / (inputs + units).
ValueRef perceptron(Builder& b, const std::string& name, ValueRef x, const Dims& units, bool relu_last) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::string layer = fmt::format("{}.{}", name, i);
    double scale = std::sqrt(2 / static_cast<double>(b.dims(x).back() + units[i]));
    x = dense(b, layer, x, units[i], {.init = "normal", .scale = scale});
    if (relu_last || i + 1 < units.size()) x = b.apply("relu", {}, {x}, layer + ".relu");
  }
  return x;
}

Pcg paper(const ModelOptions& o) {
  Builder b("dlrm");
  std::int64_t batch = o.at("batch"), width = o.at("width"), hidden = o.at("hidden");
  if (hidden % 8 != 0)
    throw_input_error(
        "model dlrm: option 'hidden' is {}, expected a multiple of 8: layers have it, a half and an eighth", hidden);
  ValueRef x = b.input("dense", {batch, 13});
  std::vector<ValueRef> features = lookups(b, batch, kCriteoRows, width, o.at("rows"));
  ValueRef label = b.input("label", {batch, 1});
  x = perceptron(b, "bottom", x, {hidden, hidden / 2, hidden / 8, width}, true);
  features.insert(features.begin(), x);
  auto count = static_cast<std::int64_t>(features.size());
  ValueRef together = b.apply("concat", {std::int64_t{1}}, features, "interaction.concat");
  together = b.apply("reshape", {Dims{batch, count, width}}, {together}, "interaction.features");
  ValueRef pairs = b.apply("dot_interaction", {}, {together}, "interaction.products");
  ValueRef top = b.apply("concat", {std::int64_t{1}}, {x, pairs}, "interaction.join");
  ValueRef logits = perceptron(b, "top", top, {hidden, hidden / 2, 1}, false);
  return std::move(b).finish({b.apply("binary_cross_entropy", {}, {logits, label}, "loss"), logits});
}

Pcg artifact(const ModelOptions& o) {
  Builder b("dlrm@artifact");
  std::int64_t batch = o.at("batch"), hidden = o.at("hidden");
  ValueRef x = b.input("dense", {batch, 4});
  Dims tables(static_cast<std::size_t>(o.at("tables")), 1'000'000);
  std::vector<ValueRef> features = lookups(b, batch, tables, o.at("width"), o.at("rows"));
  ValueRef labels = b.input("labels", {batch}, DType::i32);
  const DenseOptions plain = {.bias = false, .init = "glorot"};
  features.insert(features.begin(), dense_stack(b, "bottom", x, {hidden, hidden}, plain, true));
  ValueRef together = b.apply("concat", {std::int64_t{1}}, features, "interaction.concat");
  ValueRef logits = dense_stack(b, "top", together, {hidden, 2}, plain, false);
  return std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}, "loss"), logits});
}

}  // namespace

std::vector<ModelDefinition> dlrm_models() {
  ModelInfo published{"dlrm",
                      "DLRM for Criteo Kaggle: 26 tables, dot interaction (rows: at most so many a table; 0: all)",
                      1024,
                      {{"batch", 1024}, {"hidden", 512}, {"width", 16}, {"rows", 0}},
                      "sgd 0.01",
                      "binary_cross_entropy",
                      {"synthetic", "Criteo"}};
  ModelInfo code{"dlrm@artifact",
                 "DLRM of Unity's public code: 4 tables of a million rows, concatenation, no biases",
                 1024,
                 {{"batch", 1024}, {"hidden", 64}, {"width", 64}, {"tables", 4}, {"rows", 0}},
                 "sgd 0.01",
                 "cross_entropy",
                 {"synthetic"}};
  return {{published, paper}, {code, artifact}};
}

}  // namespace unity
