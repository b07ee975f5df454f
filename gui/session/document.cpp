#include "gui/session/document.h"

#include <filesystem>

#include "core/base/text.h"
#include "core/models/models.h"
#include "core/search/search.h"
#include "core/trace/trace_json.h"
#include "simulator/cost_model.h"
#ifdef UNITY_HAS_ONNX
#include "core/models/onnx/import.h"
#endif

namespace unity::gui {
namespace {

using Progress = std::function<void(double, const std::string&)>;

std::shared_ptr<const Pcg> onnx_graph(const std::string& path) {
#ifdef UNITY_HAS_ONNX
  return std::make_shared<const Pcg>(import_onnx(path, {}).model.pcg);
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

void search_plan(Document& document, const OpenRequest& request, const Progress& progress,
                 const std::atomic<bool>* stop) {
  auto topology = std::make_shared<const Topology>(load_topology(request.topology, {request.nodes, request.devices}));
  ModelInfo info = model_info(request.source);
  ModelSpec spec{request.source, {}};
  spec.options["batch"] = info.batch_per_gpu * static_cast<std::int64_t>(topology->device_count());
  SearchOptions options;
  options.strategy = request.strategy;
  options.optimizer = parse_optimizer(info.optimizer);
  options.stop = stop;
  if (progress) options.progress = [&](const SearchProgress& p) { progress(p.fraction, p.stage); };
  SimulatedCostModel cost(*topology);
  Plan plan = find_plan(spec, build_model(spec), cost, options).value();
  plan.topology = request.topology;
  document.title = fmt::format("{} on {}", request.source, std::filesystem::path(request.topology).stem().string());
  document.plan = std::make_shared<const Plan>(std::move(plan));
  document.topology = std::move(topology);
}

void open_model(Document& document, const OpenRequest& request) {
  document.title = std::filesystem::path(request.source).filename().string();
  if (request.source.ends_with(".onnx")) {
    document.model = onnx_graph(request.source);
    return;
  }
  ModelSpec spec{request.source, {}};
  ModelInfo info = model_info(request.source);
  if (info.options.contains("batch")) spec.options["batch"] = info.batch_per_gpu;
  document.model = std::make_shared<const Pcg>(build_model(spec));
}

}  // namespace

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
  if (request.source.ends_with(".json")) {
    std::string text = read_file(request.source);
    if (is_trace(text))
      open_trace(*document, text, request.source);
    else
      open_plan(*document, request, text);
  } else if (!request.topology.empty()) {
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
