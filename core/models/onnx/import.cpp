#include "core/models/onnx/import.h"

#include <filesystem>

#include "core/base/safetensors.h"
#include "core/base/text.h"
#include "core/models/onnx/read.h"
#include "core/models/onnx/simplify.h"
#include "core/models/yaml_write.h"
#include "core/rewrite/library.h"

namespace unity {
namespace {

std::int64_t batch_of(const Pcg& pcg) {
  for (const Node& node : pcg.nodes())
    if (node.op->name() == "input" && !ints_attribute(node.attributes, 0).empty())
      return ints_attribute(node.attributes, 0)[0];
  return 1;
}

OnnxTranslated translate(const OnnxGraph& graph, const OnnxTranslateOptions& options) {
  OnnxTranslated result = translate_onnx(graph, options);
  result.pcg = simplify(std::move(result.pcg), import_rules());
  return result;
}

bool same_values(const OnnxTranslated& a, const OnnxTranslated& b) {
  if (a.values.size() != b.values.size()) return false;
  for (const auto& [name, tensor] : a.values) {
    auto other = b.values.find(name);
    if (other == b.values.end()) return false;
    if (const OnnxTensor& x = *tensor, &y = *other->second; &x != &y)
      if (x.dims != y.dims || x.reals != y.reals || x.integers != y.integers) return false;
  }
  return true;
}

// Translates again at twice the batch, where the file allows it.
void double_batch(OnnxImport& import, const OnnxGraph& graph, OnnxTranslateOptions options) {
  options.batch = {import.batch, 2 * import.batch};
  // Other places that name the same dynamic dimension change with it.
  for (const OnnxInput& input : graph.inputs)
    if (!input.dims.empty() && !input.dims[0].name.empty() && options.dims[input.dims[0].name] == import.batch)
      options.dims[input.dims[0].name] = 2 * import.batch;
  try {
    OnnxTranslated doubled = translate(graph, options);
    if (!same_values(import.model, doubled)) {
      import.fixed = "its constants depend on the batch";
      return;
    }
    if (auto scaled = scales_with_batch(import.model.pcg, doubled.pcg, import.batch); !scaled.ok())
      import.fixed = scaled.error().message;
    else
      import.doubled = std::move(doubled.pcg);
  } catch (const InputError& error) {
    import.fixed = error.what();
  }
}

const TensorMetadata kOurs = {{"source", "unity import"}};

// The name of the file of values is nobody's choice: it replaces only one that an import wrote. Those of older imports
// do not say so, but the model file to be replaced names them.
void require_own(const std::filesystem::path& values, const std::string& model_file) {
  if (!std::filesystem::exists(values)) return;
  try {
    if (SafetensorsFile(values).metadata() == kOurs) return;
  } catch (const InputError&) {  // another kind of file
  }
  if (std::filesystem::is_regular_file(model_file)) {
    const std::string text = read_file(model_file);
    const std::size_t key = text.find("\nweights_file: "), end = text.find('\n', key + 1);
    if (key != std::string::npos && text.substr(key, end - key).find(values.filename()) != std::string::npos) return;
  }
  throw_input_error("{}: is there already, and no import wrote it; expected another name for the model (-o)",
                    values.string());
}

}  // namespace

OnnxImport import_onnx(const std::string& path, const OnnxImportOptions& options) {
  OnnxGraph graph = read_onnx(path);
  OnnxImport import;
  OnnxTranslateOptions translation{options.dims, options.loss, options.labels, std::nullopt};
  if (options.other_dims > 0)
    for (const OnnxInput& input : graph.inputs)
      for (const OnnxDim& dim : input.dims)
        if (!dim.name.empty() && translation.dims.try_emplace(dim.name, options.other_dims).second)
          import.assumed.push_back(dim.name);
  import.model = translate(graph, translation);
  import.batch = batch_of(import.model.pcg);
  double_batch(import, graph, translation);
  return import;
}

std::string write_import(const OnnxImport& import, const std::string& path) {
  namespace fs = std::filesystem;
  if (!path.ends_with(".yaml") && !path.ends_with(".yml"))
    throw_input_error("{}: found another ending, expected .yaml or .yml", path);
  const Pcg& pcg = import.model.pcg;
  std::vector<TensorInfo> infos;
  std::vector<const OnnxTensor*> tensors;
  for (const Node& node : pcg.nodes()) {
    auto found = import.model.values.find(node.name);
    if (!node.is_leaf() || found == import.model.values.end()) continue;
    infos.push_back({node.name, StoredType::f32, ints_attribute(node.attributes, 0)});
    tensors.push_back(found->second.get());
  }
  const fs::path values = fs::path(path).replace_extension(".safetensors");
  if (!infos.empty()) require_own(values, path);
  ModelFileText text;
  text.batch = import.batch;
  text.doubled = import.fixed.empty() ? &import.doubled : nullptr;
  text.description = "imported from ONNX";
  if (!import.fixed.empty())
    text.description += fmt::format("; only for a batch of {}: {}", import.batch, import.fixed);
  if (!infos.empty()) {
    text.weights_file = values.filename().string();
    SafetensorsWriter writer(values, infos, kOurs);
    for (const OnnxTensor* tensor : tensors)
      if (tensor->integral)
        writer.append(std::vector<float>(tensor->integers.begin(), tensor->integers.end()));
      else
        writer.append(tensor->reals);
    writer.finish();
  }
  write_file_atomically(path, write_model(pcg, text));
  return infos.empty() ? "" : values.string();
}

}  // namespace unity
