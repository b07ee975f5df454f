#include "core/models/models.h"

#include <algorithm>
#include <filesystem>

#include "core/base/text.h"
#include "core/models/family.h"
#include "core/models/yaml_model.h"

namespace unity {
namespace {

std::vector<ModelDefinition> built_in_models() {
  std::vector<ModelDefinition> all;
#define UNITY_MODEL_FAMILY(family) \
  for (ModelDefinition & model : family##_models()) all.push_back(std::move(model));
#include "core/models/families.def"
#undef UNITY_MODEL_FAMILY
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.info.name < b.info.name; });
  return all;
}

ModelDefinition find_model(const std::string& name) {
  if (name.ends_with(".yaml") || name.ends_with(".yml")) return load_model_file(name);
  for (ModelDefinition& model : built_in_models())
    if (model.info.name == name) return std::move(model);
  if (name.ends_with(".onnx"))
    throw_input_error("model '{}': found an ONNX file, expected a model file; make one: unity import {} -o {}", name,
                      name, std::filesystem::path(name).replace_extension(".yaml").string());
  throw_input_error("unknown model '{}'{}", name, suggestion(name, model_names()));
}

// How often a part of the graph is repeated: as many operators are made. Other options are sizes of tensors.
bool counts_parts(const std::string& option) {
  return option == "layers" || option == "top-layers" || option == "cells" || option == "tables";
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelDefinition& model : built_in_models()) names.push_back(model.info.name);
  return names;
}

ModelInfo model_info(const std::string& name) { return find_model(name).info; }

Pcg build_model(const ModelSpec& spec) {
  ModelDefinition model = find_model(spec.name);
  ModelOptions options = model.info.options;
  std::vector<std::string> known;
  for (const auto& [name, value] : options) known.push_back(name);
  for (const auto& [name, value] : spec.options) {
    if (!options.contains(name))
      throw_input_error("model {}: unknown option '{}'{}", model.info.name, name, suggestion(name, known));
    // A switch, whose default is 0, may stay off; sizes are at least 1.
    const std::int64_t least = options.at(name) == 0 ? 0 : 1;
    const std::int64_t most = counts_parts(name) && model.info.outputs_place.empty() ? 10'000 : std::int64_t{1} << 31;
    if (value < least || value > most)
      throw_input_error("model {}: option '{}' is {}, expected {} to {}", model.info.name, name, value, least, most);
    options[name] = value;
  }
  try {
    return model.build(options);
  } catch (const InputError& error) {
    // An operator's message says what does not fit, but not where; a file's does.
    std::string prefix = "model " + model.info.name + ": ", what = error.what();
    if (spec.name != model.info.name || what.starts_with(prefix)) throw;
    throw InputError(prefix + what);
  }
}

}  // namespace unity
