#include "gui/session/document.h"

#include <filesystem>

#include "core/base/text.h"
#include "core/models/models.h"
#include "core/trace/trace_json.h"
#include "gui/session/searching.h"
#ifdef UNITY_HAS_ONNX
#include "core/models/onnx/import.h"
#endif

namespace unity::gui {
namespace {

using Progress = std::function<void(double, const std::string&)>;

// What the file computes, without a loss. Dimensions that it leaves open get a size, which the title says.
void open_onnx(Document& document, const std::string& path) {
#ifdef UNITY_HAS_ONNX
  constexpr std::int64_t kOpenDimension = 32;
  OnnxImport import = import_onnx(path, {.loss = "none", .other_dims = kOpenDimension});
  if (!import.assumed.empty()) document.title += fmt::format(", {} = {}", join(import.assumed, " = "), kOpenDimension);
  document.model = std::make_shared<const Pcg>(std::move(import.model.pcg));
#else
  throw_input_error("{}: this build reads no ONNX files; install libonnx-dev and build again", path);
#endif
}

void open_plan(Document& document, const OpenRequest& request, const std::string& text) {
  Plan plan = plan_from_json(text, request.source);
  TopologyOptions options{request.nodes ? request.nodes : plan.nodes, request.devices ? request.devices : plan.devices};
  Topology topology = load_topology(request.topology.empty() ? plan.topology : request.topology, options);
  Result<void> fits = check_plan(plan, topology);
  if (!fits.ok()) throw_input_error("{}: {}", request.source, fits.error().message);
  fits = check_model(plan.model, plan.pcg);
  if (!fits.ok()) throw_input_error("{}: plan.model: {}", request.source, fits.error().message);
  document.title = std::filesystem::path(request.source).filename().string();
  document.plan = std::make_shared<const Plan>(std::move(plan));
  document.topology = std::make_shared<const Topology>(std::move(topology));
}

// Traces are large: the beginning of a file tells whether it is one.
bool is_trace(const std::string& text) { return text.substr(0, 400).find("\"unity-trace\"") != std::string::npos; }

void open_trace(Document& document, const std::string& text, const std::string& path) {
  document.title = std::filesystem::path(path).filename().string();
  document.trace = std::make_shared<const Trace>(trace_from_json(text, path));
  document.model = std::make_shared<const Pcg>();
}

// Its figures are those of the experiment, which `unity sweep` leaves beside the results.
void open_sweep(Document& document, const std::string& text, const std::string& path) {
  namespace fs = std::filesystem;
  auto sweep = std::make_shared<Sweep>();
  sweep->results = report::results_from_json(text, path);
  fs::path beside = fs::path(path).parent_path() / "experiment.yaml";
  document.title = fs::absolute(path).parent_path().filename().string();
  std::error_code error;
  if (!fs::exists(beside, error)) {
    sweep->note = "there is no experiment.yaml beside the results, which says what figures to draw";
  } else {
    try {
      report::Experiment experiment = report::load_experiment(beside.string());
      document.title = experiment.name;
      sweep->figures = std::move(experiment.figures);
      if (sweep->figures.empty()) sweep->note = "the experiment declares no figures";
    } catch (const InputError& why) {
      sweep->note = why.what();
    }
  }
  document.sweep = std::move(sweep);
  document.model = std::make_shared<const Pcg>();
}

void search_plan(Document& document, const OpenRequest& request, const Progress& progress,
                 const std::atomic<bool>* stop) {
  SearchRequest wanted;
  wanted.model.model = request.source;
  wanted.topology = request.topology;
  wanted.nodes = request.nodes, wanted.devices = request.devices;
  wanted.strategy = request.strategy;
  document = *SearchRun(std::move(wanted)).run(progress, stop).front();
  document.found = false;  // the request says all
}

void open_model(Document& document, const OpenRequest& request) {
  document.title = std::filesystem::path(request.source).filename().string();
  if (request.source.ends_with(".onnx")) {
    open_onnx(document, request.source);
    return;
  }
  ModelSpec spec{request.source, {}};
  ModelInfo info = model_info(request.source);
  if (info.options.contains("batch")) spec.options["batch"] = info.batch_per_gpu;
  document.model = std::make_shared<const Pcg>(build_model(spec));
}

bool is_sweep(const std::string& source) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(source) / "results.json", error);
}

}  // namespace

bool is_searched(const OpenRequest& request) {
  return !request.topology.empty() && !request.source.ends_with(".json") && !is_sweep(request.source);
}

bool names_file(const OpenRequest& request) {
  // One that is gone is a file, too: opening it says so.
  for (const char* end : {".json", ".yaml", ".yml", ".onnx"})
    if (request.source.ends_with(end)) return true;
  return is_sweep(request.source);
}

std::string to_text(const Document& document) {
  std::string text = document.title + "\n";
  for (const Scale& scale : document.scales) text += scale.text() + "\n";
  // The same plan as a file writes it, hence all that edits can reach.
  return text + (document.plan ? plan_to_json(*document.plan) : std::string());
}

Snapshot open_document(const OpenRequest& request, const Progress& progress, const std::atomic<bool>* stop) {
  if (progress) progress(0, "reading");
  auto document = std::make_shared<Document>();
  document->request = request;
  if (is_sweep(request.source)) {
    std::string path = (std::filesystem::path(request.source) / "results.json").string();
    open_sweep(*document, read_file(path), path);
  } else if (request.source.ends_with(".json")) {
    std::string text = read_file(request.source);
    if (report::is_results(text))
      open_sweep(*document, text, request.source);
    else if (is_trace(text))
      open_trace(*document, text, request.source);
    else
      open_plan(*document, request, text);
  } else if (is_searched(request)) {
    search_plan(*document, request, progress, stop);
  } else {
    open_model(*document, request);
  }
  return document;
}

OpenRequest sample_request() {
  return {.source = "bert-large", .topology = "summit", .nodes = 2, .strategy = "expert"};
}

}  // namespace unity::gui
