#include "core/models/yaml_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include <yaml-cpp/yaml.h>

#include "core/base/path_inside.h"
#include "core/base/read_yaml.h"
#include "core/base/text.h"

namespace unity {
namespace {

// A YAML document with the name of its file, for messages that say where.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) { root_ = read_yaml(read_file(path_), path_); }

  const YAML::Node& root() const { return root_; }

  std::string place(const YAML::Node& at) const {
    YAML::Mark mark = at.Mark();
    return fmt::format("{}:{}:{}", path_, mark.line + 1, mark.column + 1);
  }

  [[noreturn]] void fail(const YAML::Node& at, const std::string& message) const {
    throw_input_error("{}: {}", place(at), message);
  }

  void require_map(const YAML::Node& node, const std::string& what, const std::vector<std::string>& keys) const {
    if (!node.IsMap()) fail(node, fmt::format("{}: expected a map", what));
    for (const auto& entry : node) {
      std::string key = text(entry.first, "a key");
      if (!keys.empty() && std::find(keys.begin(), keys.end(), key) == keys.end())
        fail(entry.first, fmt::format("{}: unknown key '{}'{}", what, key, suggestion(key, keys)));
    }
  }

  YAML::Node require(const YAML::Node& map, const std::string& key, const std::string& what) const {
    YAML::Node value = map[key];
    if (!value) fail(map, fmt::format("{}: key '{}' is missing", what, key));
    return value;
  }

  std::string text(const YAML::Node& node, const std::string& what) const {
    if (!node.IsScalar()) fail(node, fmt::format("{}: expected a text", what));
    return node.Scalar();
  }

  std::vector<YAML::Node> list(const YAML::Node& node, const std::string& what) const {
    if (!node.IsSequence()) fail(node, fmt::format("{}: expected a list", what));
    return {node.begin(), node.end()};
  }

  // An integer, the name of an option, or a product of those: 4*hidden.
  std::int64_t size(const YAML::Node& node, const std::string& what, const ModelOptions& options) const {
    std::string whole = text(node, what);
    std::int64_t product = 1;
    for (std::size_t begin = 0; begin <= whole.size();) {
      std::size_t end = std::min(whole.find('*', begin), whole.size());
      std::string word = whole.substr(begin, end - begin);
      std::int64_t value = 0;
      if (auto option = options.find(word); option != options.end()) {
        value = option->second;
      } else if (!YAML::convert<std::int64_t>::decode(YAML::Node(word), value)) {
        std::vector<std::string> names;
        for (const auto& [name, size] : options) names.push_back(name);
        fail(node,
             fmt::format("{}: found '{}', expected an integer or an option{}", what, word, suggestion(word, names)));
      }
      if (__builtin_mul_overflow(product, value, &product))
        fail(node, fmt::format("{}: found '{}', which is too large", what, whole));
      begin = end + 1;
    }
    return product;
  }

  Integers sizes(const YAML::Node& node, const std::string& what, const ModelOptions& options) const {
    Integers values;
    for (const YAML::Node& entry : list(node, what)) values.push_back(size(entry, what, options));
    return values;
  }

 private:
  std::string path_;
  YAML::Node root_;
};

class ModelFile {
 public:
  explicit ModelFile(const std::string& path) : reader_(path) {
    const YAML::Node& root = reader_.root();
    reader_.require_map(root, "model",
                        {"format", "version", "name", "description", "options", "weights_file", "inputs", "weights",
                         "states", "layers", "outputs", "optimizer"});
    YAML::Node format = reader_.require(root, "format", "model");
    if (reader_.text(format, "format") != "unity-model")
      reader_.fail(format, fmt::format("format: found '{}', expected 'unity-model'", format.Scalar()));
    YAML::Node version = reader_.require(root, "version", "model");
    if (reader_.text(version, "version") != "1")
      reader_.fail(version, fmt::format("version: found '{}', expected 1", version.Scalar()));
    info_.name = reader_.text(reader_.require(root, "name", "model"), "name");
    info_.description = root["description"] ? reader_.text(root["description"], "description") : "model of " + path;
    info_.optimizer = root["optimizer"] ? reader_.text(root["optimizer"], "optimizer") : "sgd 0.01";
    if (root["optimizer"]) info_.optimizer_place = reader_.place(root["optimizer"]);
    info_.datasets = {"synthetic"};
    if (YAML::Node file = root["weights_file"]) {
      auto values = path_inside(std::filesystem::path(path).parent_path(), reader_.text(file, "weights_file"));
      if (!values.ok()) reader_.fail(file, "weights_file: " + values.error().message);
      info_.weights_file = values->string();
    }
    if (YAML::Node options = root["options"]) {
      reader_.require_map(options, "options", {});
      for (const auto& entry : options) {
        std::string name = reader_.text(entry.first, "option");
        info_.options[name] = reader_.size(entry.second, "option " + name, {});
        if (info_.options[name] < 1)
          reader_.fail(entry.second,
                       fmt::format("option {}: found {}, expected at least 1", name, info_.options[name]));
      }
    }
    Pcg pcg = build(info_.options);
    const auto batch = info_.options.find("batch");
    if (batch == info_.options.end())
      reader_.fail(root["options"] ? root["options"] : root,
                   "options: found no 'batch', expected it: the samples per device, dimension 0 of the inputs");
    info_.batch_per_gpu = batch->second;
    // What is cut along the batch is told by the first input.
    for (const Node& n : pcg.nodes()) {
      if (n.op->name() != "input" || n.outputs[0].dims.empty()) continue;
      const Dims dims = n.outputs[0].shape().dims;
      if (dims[0] % batch->second != 0)
        reader_.fail(root["inputs"],
                     fmt::format("input {}: found shape [{}], expected the batch of {} as dimension 0 of "
                                 "the first input",
                                 n.name, fmt::join(dims, ", "), batch->second));
      break;
    }
    info_.loss = pcg[pcg.outputs()[0].node].op->name();
    info_.outputs_place = reader_.place(root["outputs"]);
  }

  const ModelInfo& info() const { return info_; }

  Pcg build(const ModelOptions& options) const {
    const YAML::Node& root = reader_.root();
    Pcg pcg;
    pcg.set_name(info_.name);
    Values values;
    for (const std::string kind : {"input", "weight", "state"})
      if (YAML::Node leaves = root[kind + "s"]) {
        reader_.require_map(leaves, kind + "s", {});
        for (const auto& entry : leaves) add_leaf(pcg, values, kind, entry.first, entry.second, options);
      }
    YAML::Node layers = reader_.require(root, "layers", "model");
    for (const YAML::Node& layer : reader_.list(layers, "layers")) add_layer(pcg, values, layer, options);
    YAML::Node outputs = reader_.require(root, "outputs", "model");
    std::vector<ValueRef> refs;
    for (const YAML::Node& output : reader_.list(outputs, "outputs")) refs.push_back(find(values, output));
    pcg.set_outputs(std::move(refs));
    auto checked = check_well_formed(pcg);
    if (!checked.ok()) reader_.fail(outputs, checked.error().message);
    return pcg;
  }

 private:
  using Values = std::map<std::string, ValueRef>;

  void add_leaf(Pcg& pcg, Values& values, const std::string& kind, const YAML::Node& key, const YAML::Node& node,
                const ModelOptions& options) const {
    std::string name = reader_.text(key, "name");
    std::string what = kind + " " + name;
    std::vector<std::string> keys = {"shape"};
    if (!find_operator(kind)) reader_.fail(key, fmt::format("{}: this build has no {}s", what, kind));
    const Operator& op = get_operator(kind);
    for (const AttributeSpec& spec : op.attributes())
      if (spec.name != "shape") keys.push_back(spec.name);
    reader_.require_map(node, what, keys);
    reader_.require(node, "shape", what);
    add(pcg, values, key, name, op, attributes(op, node, what, options), {});
  }

  void add_layer(Pcg& pcg, Values& values, const YAML::Node& layer, const ModelOptions& options) const {
    reader_.require_map(layer, "layer", {"name", "op", "attributes", "inputs"});
    YAML::Node name_node = reader_.require(layer, "name", "layer");
    std::string name = reader_.text(name_node, "name");
    std::string what = "layer " + name;
    YAML::Node op_node = reader_.require(layer, "op", what);
    std::string op_name = reader_.text(op_node, "op");
    const Operator* op = find_operator(op_name);
    if (!op)
      reader_.fail(op_node,
                   fmt::format("{}: unknown operator '{}'{}", what, op_name, suggestion(op_name, layer_operators())));
    if (op->category() == OpCategory::parallelization)
      reader_.fail(op_node, fmt::format("{}: '{}' changes only how a tensor is laid out, which is for a plan to say",
                                        what, op_name));
    if (op_name == "boundary" || op_name == "deliver")
      reader_.fail(op_node, fmt::format("{}: '{}' stands for the ends of parts of a graph, which the search makes",
                                        what, op_name));
    std::vector<ValueRef> inputs;
    if (YAML::Node list = layer["inputs"])
      for (const YAML::Node& input : reader_.list(list, what)) inputs.push_back(find(values, input));
    YAML::Node given = layer["attributes"] ? layer["attributes"] : YAML::Node(YAML::NodeType::Map);
    std::vector<std::string> known;
    for (const AttributeSpec& spec : op->attributes()) known.push_back(spec.name);
    if (given.IsMap() && given.size() > 0 && known.empty())
      reader_.fail(given, fmt::format("{}: {} has no attributes", what, op_name));
    reader_.require_map(given, what, known);
    for (const AttributeSpec& spec : op->attributes())
      if (spec.required && !given[spec.name])
        reader_.fail(layer, fmt::format("{}: {}: attribute '{}' is missing", what, op_name, spec.name));
    add(pcg, values, name_node, name, *op, attributes(*op, given, what, options), std::move(inputs));
  }

  Attributes attributes(const Operator& op, const YAML::Node& given, const std::string& what,
                        const ModelOptions& options) const {
    Attributes values;
    for (const AttributeSpec& spec : op.attributes()) {
      const YAML::Node node = given[spec.name];
      values.push_back(node ? attribute(spec, node, what + ": " + spec.name, options) : spec.fallback);
    }
    return values;
  }

  AttributeValue attribute(const AttributeSpec& spec, const YAML::Node& node, const std::string& what,
                           const ModelOptions& options) const {
    switch (spec.kind) {
      case AttributeKind::text:
        return reader_.text(node, what);
      case AttributeKind::integers:
        return reader_.sizes(node, what, options);
      case AttributeKind::integer:
        return reader_.size(node, what, options);
      case AttributeKind::real:
        break;
    }
    double value = 0;
    if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !std::isfinite(value))
      reader_.fail(node, fmt::format("{}: expected a real number, a finite one", what));
    return value;
  }

  void add(Pcg& pcg, Values& values, const YAML::Node& at, const std::string& name, const Operator& op,
           Attributes attributes, std::vector<ValueRef> inputs) const {
    if (name.empty()) reader_.fail(at, "found an empty name");
    auto added = pcg.try_add(op, std::move(attributes), std::move(inputs),
                             OriginId(static_cast<std::int64_t>(pcg.size())), name);
    if (!added.ok()) reader_.fail(at, fmt::format("{}: {}", name, added.error().message));
    std::size_t results = pcg[*added].outputs.size();
    for (std::size_t r = 0; r < results; ++r) {
      std::string value = results == 1 ? name : fmt::format("{}.{}", name, r);
      if (!values.emplace(value, ValueRef{*added, static_cast<int>(r)}).second)
        reader_.fail(at, fmt::format("'{}' is defined twice", value));
    }
  }

  ValueRef find(const Values& values, const YAML::Node& node) const {
    std::string name = reader_.text(node, "value");
    auto found = values.find(name);
    if (found != values.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, value] : values) names.push_back(known);
    std::string near = nearest_name(name, names);
    reader_.fail(node, fmt::format("unknown value '{}'{}", name,
                                   near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
  }

  static std::vector<std::string> layer_operators() {
    std::vector<std::string> names;
    for (const Operator* op : all_operators())
      if (op->category() == OpCategory::compute) names.push_back(op->name());
    return names;
  }

  Reader reader_;
  ModelInfo info_;
};

}  // namespace

ModelDefinition load_model_file(const std::string& path) {
  auto file = std::make_shared<const ModelFile>(path);
  return {file->info(), [file](const ModelOptions& options) { return file->build(options); }};
}

}  // namespace unity
