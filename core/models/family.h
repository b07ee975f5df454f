// For model sources only: what a family of models declares, and the layers they share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/graph/builder.h"
#include "core/models/models.h"

namespace unity {

using ModelOptions = std::map<std::string, std::int64_t>;  // complete: every option of ModelInfo::options is there

struct ModelDefinition {
  ModelInfo info;
  std::function<Pcg(const ModelOptions&)> build;
};

// One function for each line of families.def.
#define UNITY_MODEL_FAMILY(family) std::vector<ModelDefinition> family##_models();
#include "core/models/families.def"
#undef UNITY_MODEL_FAMILY

// y = x W (+ b) with weights "<name>.weight" and "<name>.bias"; W drawn as `init` with `scale` (see the weight
// operator), or "glorot": uniform with variance 2 / (inputs + units) (Glorot, Bengio, AISTATS 2010). b is zeros.
struct DenseOptions {
  bool bias = true;
  std::string init = "uniform";
  double scale = 0;
};
ValueRef dense(Builder& b, const std::string& name, ValueRef x, std::int64_t units, const DenseOptions& options = {});

// Dense layers "<name>.0", "<name>.1", .. of the given units, with ReLU "<name>.0.relu" .. between them, and after the
// last one too with `relu_last`.
ValueRef dense_stack(Builder& b, const std::string& name, ValueRef x, const Dims& units, const DenseOptions& options,
                     bool relu_last);

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta over the last dimension.
ValueRef layer_norm(Builder& b, const std::string& name, ValueRef x, double epsilon);

}  // namespace unity
