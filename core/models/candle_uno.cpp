// CANDLE-Uno (the Uno benchmark of the CANDLE project: response of tumour cells to pairs of drugs) in the sizes of
// Unity (OSDI 2022): a tower of dense layers for each group of features, none shared, concatenated with the two doses;
// mean squared error of the predicted growth. No biases.
#include "core/models/family.h"

namespace unity {
namespace {

struct Feature {
  const char* name;
  std::int64_t size;
};
constexpr Feature kFeatures[] = {{"cell.rnaseq", 942},
                                 {"drug1.descriptors", 5270},
                                 {"drug1.fingerprints", 2048},
                                 {"drug2.descriptors", 5270},
                                 {"drug2.fingerprints", 2048}};

const DenseOptions kDense = {.bias = false, .init = "glorot"};

Pcg build(const ModelOptions& o) {
  Builder b("candle-uno");
  std::int64_t batch = o.at("batch"), hidden = o.at("hidden");
  std::vector<ValueRef> towers, joined = {b.input("dose1", {batch, 1}), b.input("dose2", {batch, 1})};
  for (const Feature& f : kFeatures) towers.push_back(b.input(f.name, {batch, std::min(f.size, o.at("features"))}));
  ValueRef label = b.input("label", {batch, 1});
  for (std::size_t i = 0; i < towers.size(); ++i)
    joined.push_back(dense_stack(b, kFeatures[i].name, towers[i],
                                 Dims(static_cast<std::size_t>(o.at("layers")), hidden), kDense, true));
  ValueRef x = b.apply("concat", {std::int64_t{1}}, joined, "concat");
  x = dense_stack(b, "top", x, Dims(static_cast<std::size_t>(o.at("top-layers")), hidden), kDense, true);
  ValueRef growth = dense(b, "growth", x, 1, kDense);
  return std::move(b).finish({b.apply("mean_squared_error", {}, {growth, label}, "loss"), growth});
}

}  // namespace

std::vector<ModelDefinition> candle_uno_models() {
  ModelInfo info{"candle-uno", "CANDLE-Uno: 5 towers of 8 dense layers of 4192 with ReLU, 4 more on top, no biases",
                 256,          {{"batch", 256}, {"layers", 8}, {"top-layers", 4}, {"hidden", 4192}, {"features", 5270}},
                 "sgd 0.01",   "mean_squared_error",
                 {"synthetic"}};
  return {{info, build}};
}

}  // namespace unity
