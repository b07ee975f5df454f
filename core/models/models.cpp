#include "core/models/models.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

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

// Rules hold of any number in their place; what is trained has a root of a sum, and a mean of old and new.
void require_in_range(const Pcg& pcg, const std::string& model) {
  for (const Node& n : pcg.nodes()) {
    const std::vector<AttributeSpec> specs = n.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const bool momentum = specs[i].name == "momentum";
      if (specs[i].name != "epsilon" && !momentum) continue;
      const double value = real_attribute(n.attributes, i);
      if (!(value >= 0) || (momentum && value > 1))
        throw_input_error("{}: {} of '{}' ({}): found {}, expected at least 0{}", model, specs[i].name, n.name,
                          n.op->name(), value, momentum ? " and at most 1" : "");
    }
  }
}

// Of what several operators write back to one state, after they all have read it, only one would stay.
void require_one_writer(const Pcg& pcg, const std::string& model) {
  std::map<NodeId, std::string> writers;
  for (const Node& n : pcg.nodes())
    for (std::size_t o = 0; o < n.outputs.size(); ++o)
      if (std::optional<int> state = n.op->new_state(static_cast<int>(o))) {
        const NodeId leaf = n.inputs[static_cast<std::size_t>(*state)].node;
        auto [writer, first] = writers.try_emplace(leaf, n.name);
        if (!first)
          throw_input_error("{}: state '{}' is updated by '{}' and by '{}', expected one operator", model,
                            pcg[leaf].name, writer->second, n.name);
      }
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
    Pcg pcg = model.build(options);
    require_one_writer(pcg, spec.name);
    require_in_range(pcg, spec.name);
    return pcg;
  } catch (const InputError& error) {
    // An operator's message says what does not fit, but not where; a file's does.
    std::string prefix = "model " + model.info.name + ": ", what = error.what();
    if (spec.name != model.info.name || what.starts_with(prefix)) throw;
    throw InputError(prefix + what);
  }
}

Result<void> check_model(const ModelSpec& spec, const Pcg& graph) {
  const std::vector<std::string> names = model_names();
  if (std::find(names.begin(), names.end(), spec.name) == names.end()) return {};
  auto leaves_of = [](const Pcg& pcg) {
    std::map<std::string, std::string> leaves;
    for (const Node& n : pcg.nodes())
      if (n.is_leaf() && !n.op->random()) leaves[n.name] = to_string(n.outputs[0].shape());
    return leaves;
  };
  const std::map<std::string, std::string> found = leaves_of(graph), expected = leaves_of(build_model(spec));
  const std::string of = fmt::format("model {} with these options", spec.name);
  for (const auto& [name, shape] : expected) {
    auto it = found.find(name);
    if (it == found.end()) return fail("the graph has no '{}', {}, expected it as {} has it", name, shape, of);
    if (it->second != shape)
      return fail("the graph has '{}' as {}, expected {} as {} has it", name, it->second, shape, of);
  }
  for (const auto& [name, shape] : found)
    if (!expected.contains(name)) return fail("the graph has '{}', {}, which {} has not", name, shape, of);
  return {};
}

}  // namespace unity
