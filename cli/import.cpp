// unity import: a model of another program as a model file, or a machine as a topology file (import_machine.h).
#include <charconv>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/import_machine.h"
#include "cli/options.h"
#include "core/base/text.h"
#include "core/models/models.h"
#include "core/models/summary.h"
#ifdef UNITY_HAS_ONNX
#include "core/models/onnx/import.h"
#endif

namespace unity::cli {
namespace {

struct Options {
  std::string model, output, loss = "cross_entropy", labels = "labels";
  std::vector<std::string> dims;
  bool json = false;
};

#ifdef UNITY_HAS_ONNX

std::map<std::string, std::int64_t> parse_dims(const std::vector<std::string>& texts) {
  std::map<std::string, std::int64_t> dims;
  for (const std::string& text : texts) {
    std::size_t equals = text.rfind('=');
    std::int64_t size = 0;
    const char* end = text.data() + text.size();
    const char* begin = equals == std::string::npos ? end : text.data() + equals + 1;
    auto [rest, error] = std::from_chars(begin, end, size);
    if (equals == 0 || error != std::errc() || rest != end || size < 1)
      throw_input_error("--dim: found '{}', expected NAME=SIZE with a size of at least 1", text);
    if (!dims.emplace(text.substr(0, equals), size).second)
      throw_input_error("--dim: found '{}', expected one size for {}", text, text.substr(0, equals));
  }
  return dims;
}

void import_model(const Options& o) {
  std::string path = o.output.empty() ? o.model.substr(0, o.model.rfind('.')) + ".yaml" : o.output;
  require_writable(path);
  OnnxImport import = import_onnx(o.model, {parse_dims(o.dims), o.loss, o.labels});
  std::string values = write_import(import, path);
  // What was written can be read, and is the same graph.
  Pcg written = build_model({path, model_info(path).options});
  UNITY_CHECK(written.size() == import.model.pcg.size(), "{}: reads back as another graph", path);
  ModelFacts facts = summarize(written).facts;
  if (o.json) {
    nlohmann::ordered_json out = {
        {"model", path},
        {"weights_file", values.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(values)},
        {"batch", import.batch},
        {"any_batch", import.fixed.empty()},
        {"parameters", facts.parameters},
        {"operators", facts.operators}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("{} written: {} operators, {} parameters, batch {}{}\n", path, facts.operators, facts.parameters,
             import.batch, import.fixed.empty() ? "" : " only");
  if (!values.empty()) fmt::print("{} written: the initial values\n", values);
  if (!import.fixed.empty()) fmt::print("the batch cannot be changed: {}\n", import.fixed);
}

#else

void import_model(const Options&) {
  throw_input_error("import: this build cannot read ONNX; install libonnx-dev and libprotobuf-dev and configure again");
}

#endif

// What a file that does not end in .onnx seems to be, as the rest of a message.
std::string what_else(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return {};
  std::string text = read_file(path);
  auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  const char* format = has("<system") && has("<cpu") ? "nccl-topo"
                       : has("busbw")                ? "nccl-tests"
                       : has("GPU0") && has("SYS")   ? "nvidia-smi-topo"
                                                     : nullptr;
  return format ? fmt::format(": unity import {} {}", format, path)
                : ", or nvidia-smi-topo, nccl-topo or nccl-tests before it";
}

}  // namespace

void add_import(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "import", "Make a model file of an ONNX model, or a topology file of a machine",
                                  "  unity import net.onnx -o net.yaml --dim batch=32\n"
                                  "  unity import regressor.onnx --loss mean_squared_error --labels target\n"
                                  "  unity import nvidia-smi-topo topo.txt -o node.yaml\n"
                                  "  unity import nccl-topo topo.xml -o node.yaml\n"
                                  "  unity import nccl-tests all_reduce.txt --topology dgx-h100 -o fitted.yaml");
  command->add_option("MODEL", o->model, "An ONNX file, opset 9 to 20; its name ends in .onnx");
  output_file(
      command->add_option("-o,--output", o->output, "The model file to write (default: beside the ONNX file, .yaml)"));
  command->add_option("--dim", o->dims, "Size of a dynamic dimension; may be repeated")
      ->type_name("NAME=SIZE")
      ->allow_extra_args(false);
  command
      ->add_option("--loss", o->loss,
                   "Over the first output: cross_entropy, mean_squared_error, binary_cross_entropy, or none")
      ->capture_default_str();
  command->add_option("--labels", o->labels, "Name of the input that the loss compares with")->capture_default_str();
  add_json(*command, o->json);
  add_machine_imports(*command);
  command->callback([o, command] {
    if (!command->get_subcommands().empty()) return;
    if (o->model.empty())
      throw_input_error("import: found no file, expected an ONNX file, nvidia-smi-topo, nccl-topo or nccl-tests");
    if (std::filesystem::path(o->model).extension() != ".onnx" && !what_else(o->model).empty())
      throw_input_error("import: found '{}', expected a file that ends in .onnx{}", o->model, what_else(o->model));
    import_model(*o);
  });
}

}  // namespace unity::cli
