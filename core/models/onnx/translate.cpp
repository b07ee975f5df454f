#include "core/models/onnx/translate.h"

#include <algorithm>
#include <filesystem>

#include "core/base/text.h"
#include "core/models/onnx/fold.h"
#include "core/models/onnx/loss.h"
#include "core/models/onnx/translations.h"

namespace unity {
namespace {

// Names that exporters give to what has none in the program: a single number under such a name is a constant.
bool is_anonymous(const std::string& name) {
  return name.starts_with("val_") || name.starts_with("onnx::") || name.starts_with("/");
}

class Translator {
 public:
  Translator(const OnnxGraph& graph, const OnnxTranslateOptions& options)
      : graph_(graph), options_(options), all_(std::filesystem::path(graph.file).stem().string()) {
    all_.opset = graph.opset;
    if (options.batch) all_.batch_before = options.batch->first, all_.batch_after = options.batch->second;
    for (const OnnxNode& node : graph.nodes)
      for (const std::string& input : node.inputs) ++all_.uses[input];
    for (const std::string& output : graph.outputs) ++all_.uses[output];
  }

  OnnxTranslated run() {
    check_dims();
    for (const OnnxInput& input : graph_.inputs) add_input(input);
    for (const auto& [name, tensor] : graph_.initializers) {
      defined_.insert(name);
      bool parameter = !tensor->integral && !tensor->dims.empty() && (tensor->elements() > 1 || !is_anonymous(name));
      all_.values[name] = {{}, tensor, parameter, false};
    }
    for (const OnnxNode& node : graph_.nodes) add_node(node);
    if (!unsupported_.empty()) refuse();
    std::vector<ValueRef> outputs = find_outputs();
    OnnxTranslated result;
    result.pcg = std::move(all_.builder).finish(outputs);
    for (const auto& [leaf, tensor] : all_.tensors) result.values[result.pcg[leaf.node].name] = tensor;
    try {
      append_onnx_loss(result.pcg, options_.loss, options_.labels);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", graph_.file, error.what()));
    }
    result.pcg = result.pcg.without_dead_nodes();
    return result;
  }

 private:
  void check_dims() const {
    std::vector<std::string> known, missing;
    for (const OnnxInput& input : graph_.inputs)
      for (const OnnxDim& dim : input.dims) {
        if (dim.name.empty()) continue;
        if (std::find(known.begin(), known.end(), dim.name) != known.end()) continue;
        known.push_back(dim.name);
        if (!options_.dims.contains(dim.name))
          missing.push_back(fmt::format("{} (of input '{}')", dim.name, input.name));
      }
    for (const auto& [name, size] : options_.dims) {
      if (std::find(known.begin(), known.end(), name) == known.end())
        throw_input_error("{}: has no dynamic dimension '{}'{}", graph_.file, name,
                          known.empty() ? "" : suggestion(name, known));
      if (size < 1) throw_input_error("{}: dimension {} is {}, expected at least 1", graph_.file, name, size);
    }
    if (!missing.empty())
      throw_input_error("{}: found {} dynamic dimension{} without a size: {}; expected --dim NAME=SIZE for each",
                        graph_.file, missing.size(), missing.size() == 1 ? "" : "s", join(missing));
  }

  void add_input(const OnnxInput& input) {
    Dims dims;
    for (const OnnxDim& dim : input.dims) dims.push_back(dim.name.empty() ? dim.size : options_.dims.at(dim.name));
    if (options_.batch && !dims.empty() && dims[0] == options_.batch->first) dims[0] = options_.batch->second;
    std::string label = onnx_label(input.name);
    try {
      define(input.name);
      ValueRef ref =
          all_.builder.input(label.empty() ? "input" : label, dims, input.integral ? DType::i32 : DType::f32);
      all_.values[input.name] = OnnxValue{ref, nullptr};
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: input '{}': {}", graph_.file, input.name, error.what()));
    }
  }

  void define(const std::string& name) {
    if (!name.empty() && !defined_.insert(name).second) throw_input_error("value '{}' is defined twice", name);
  }

  void add_node(const OnnxNode& node) {
    std::string where = fmt::format("{}: node '{}' ({})", graph_.file,
                                    node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name, node.op);
    OnnxContext context(all_, node);
    try {
      for (const std::string& output : node.outputs) define(output);
      bool unknown = false;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) unknown |= context.given(i) && context.value(i).unknown;
      OnnxTranslator translator = node.domain.empty() ? find_onnx_translator(node.op) : nullptr;
      if (!unknown && fold_node(node, context)) return;
      if (!translator)
        throw UnsupportedOnnx("");
      else if (unknown)
        set_unknown(node);
      else
        translator(context);
    } catch (const UnsupportedOnnx& reason) {
      std::string what = node.domain.empty() ? node.op : node.domain + "." + node.op;
      if (*reason.what()) what += fmt::format(": {}", reason.what());
      ++unsupported_[what];
      set_unknown(node);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", where, error.what()));
    }
  }

  bool fold_node(const OnnxNode& node, OnnxContext& context) {
    std::vector<OnnxTensorRef> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(context.given(i) ? context.constant(i) : nullptr);
      if (context.given(i) && !inputs.back()) return false;
    }
    auto results = fold(node, inputs, graph_.opset);
    if (!results) return false;
    for (const OnnxTensorRef& result : *results) folded_ += result->elements();
    if (folded_ > kMostFolded)
      throw_input_error("found constants that are computed of more than {} elements in all", kMostFolded);
    for (std::size_t i = 0; i < results->size(); ++i) context.result(i, OnnxValue{{}, (*results)[i]});
    return true;
  }

  void set_unknown(const OnnxNode& node) {
    for (const std::string& output : node.outputs) all_.values[output] = {{}, nullptr, false, true};
  }

  [[noreturn]] void refuse() const {
    std::vector<std::string> parts;
    int total = 0;
    for (const auto& [what, count] : unsupported_) {
      parts.push_back(fmt::format("{} ({})", what, count));
      total += count;
    }
    throw_input_error("{}: found {} operator{} that Unity lacks: {}", graph_.file, total, total == 1 ? "" : "s",
                      join(parts, "; "));
  }

  std::vector<ValueRef> find_outputs() {
    // Outputs are read through a node of their own, as operands are.
    OnnxNode end{"output", "output", "", graph_.outputs, {}, {}};
    OnnxContext context(all_, end);
    std::vector<ValueRef> outputs;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      auto found = all_.values.find(graph_.outputs[i]);
      if (found == all_.values.end())
        throw_input_error("{}: output '{}' is not defined", graph_.file, graph_.outputs[i]);
      outputs.push_back(context.tensor(i));
    }
    return outputs;
  }

  static constexpr std::int64_t kMostFolded = std::int64_t{1} << 26;

  const OnnxGraph& graph_;
  const OnnxTranslateOptions& options_;
  std::int64_t folded_ = 0;  // elements of what nodes on constants gave
  OnnxTranslation all_;
  std::map<std::string, int> unsupported_;  // what, how often
  std::set<std::string> defined_;           // names of values so far
};

}  // namespace

OnnxTranslator find_onnx_translator(const std::string& op) {
  static const std::map<std::string, OnnxTranslator> table = {
#define UNITY_ONNX(name) {#name, onnx_##name},
#include "core/models/onnx/translations.def"
#undef UNITY_ONNX
  };
  auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

OnnxTranslated translate_onnx(const OnnxGraph& graph, const OnnxTranslateOptions& options) {
  return Translator(graph, options).run();
}

}  // namespace unity
