#include "gui/session/searching.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>

#include "core/base/text.h"
#include "core/models/models.h"
#include "simulator/cost_model.h"

namespace unity::gui {
namespace {

constexpr double kBetweenSamples = 0.1;  // seconds

bool flag_of(const std::string& name, const std::string& text) {
  if (text != "true" && text != "false") throw_input_error("{}: found '{}', expected true or false", name, text);
  return text == "true";
}

void set(const report::SettingField& field, const std::string& text) {
  std::visit(
      [&](auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>)
          *value = !flag_of(field.name, text);
        else if constexpr (std::is_arithmetic_v<Value>)
          *value = text.empty() ? Value{} : number_of<Value>(field.name, text);
        else if constexpr (std::is_same_v<Value, std::string>)
          *value = text;
        else
          *value = text.empty() ? Value() : report::split_list(field.name, text);
      },
      field.value);
}

// The window goes on drawing while a search has the other processors.
int threads_of_search() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1); }

}  // namespace

std::string field_text(const report::SettingField& field) {
  return std::visit(
      [](auto* value) -> std::string {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>)
          return *value ? "false" : "true";
        else if constexpr (std::is_arithmetic_v<Value>)
          return *value == Value{} ? std::string() : fmt::format("{}", *value);
        else if constexpr (std::is_same_v<Value, std::string>)
          return *value;
        else
          return join(*value, ",");
      },
      field.value);
}

void set_field(SearchRequest& request, const std::string& name, const std::string& value) {
  std::vector<std::string> known = {"model",         "topology", "nodes",  "devices", "strategy",
                                    "batch-per-gpu", "seq-len",  "layers", "pareto",  "option"};
  if (name == "model") return void(request.model.model = value);
  if (name == "topology") return void(request.topology = value);
  if (name == "strategy") return void(request.strategy = value);
  if (name == "nodes") return void(request.nodes = number_of<int>(name, value));
  if (name == "devices") return void(request.devices = number_of<int>(name, value));
  if (name == "batch-per-gpu") return void(request.model.batch_per_gpu = number_of<std::int64_t>(name, value));
  if (name == "seq-len") return void(request.model.seq_len = number_of<std::int64_t>(name, value));
  if (name == "layers") return void(request.model.layers = number_of<std::int64_t>(name, value));
  if (name == "option") return void(request.model.options = report::split_list(name, value));
  if (name == "pareto") return void(request.settings.search.pareto = flag_of(name, value));
  std::vector<report::SettingField> fields = report::setting_fields(request.settings);
  for (const report::SettingField& field : report::setting_fields(request.settings.schedule)) fields.push_back(field);
  for (const report::SettingField& field : fields) {
    if (field.name == name) return set(field, value);
    known.push_back(field.name);
  }
  throw_input_error("a search has no setting '{}'{}", name, suggestion(name, known));
}

SearchRun::Status SearchRun::status() {
  std::lock_guard lock(mutex_);
  if (view_) {
    last_.state = view_();
    auto scored = static_cast<double>(last_.state.candidates);
    if (last_.scored.empty() || last_.state.seconds - last_.scored.back().first >= kBetweenSamples)
      last_.scored.emplace_back(last_.state.seconds, scored);
  }
  return last_;
}

std::vector<Snapshot> SearchRun::found() const {
  std::lock_guard lock(mutex_);
  return found_;
}

std::vector<Snapshot> SearchRun::run(const std::function<void(double, const std::string&)>& progress,
                                     const std::atomic<bool>* stop) {
  try {
    auto topology =
        std::make_shared<const Topology>(load_topology(request_.topology, {request_.nodes, request_.devices}));
    Topology with_families = *topology;
    request_.settings.add_mappings(with_families);
    ModelSpec spec = request_.model.spec(static_cast<int>(topology->device_count()));
    SearchOptions options = request_.settings.options(request_.strategy, request_.model.model);
    if (options.jobs == 0) options.jobs = threads_of_search();
    options.stop = stop ? stop : &stop_;
    options.progress = [&](const SearchProgress& p) {
      {
        std::lock_guard lock(mutex_);
        last_.progress = p;
      }
      if (progress) progress(p.fraction, p.stage);
    };
    options.watch = [&](std::function<SearchState()> view) {
      std::lock_guard lock(mutex_);
      if (!view && view_) last_.state = view_();
      view_ = std::move(view);
    };
    SimulatedCostModel cost(std::move(with_families));
    Result<std::vector<Plan>> plans = find_plans(spec, build_model(spec), cost, options);
    if (!plans.ok()) throw InputError(plans.error().message);
    std::vector<Snapshot> found;
    std::string title =
        fmt::format("{} on {}", request_.model.model, std::filesystem::path(request_.topology).stem().string());
    for (std::size_t i = 0; i < plans->size(); ++i) {
      Plan& plan = (*plans)[i];
      plan.topology = request_.topology;
      auto document = std::make_shared<Document>();
      document->request = {request_.model.model, request_.topology, request_.nodes, request_.devices,
                           request_.strategy};
      document->found = true;
      document->title = title + (i > 0 ? fmt::format(" ({})", i + 1) : "");
      if (plan.search.log.interrupted) document->title += ", best so far";
      document->plan = std::make_shared<const Plan>(std::move(plan));
      document->topology = topology;
      found.push_back(std::move(document));
    }
    std::lock_guard lock(mutex_);
    last_.done = true;
    last_.state = {found.front()->plan->search.log, found.front()->plan->search.candidates,
                   found.front()->plan->search.seconds};
    found_ = found;
    return found;
  } catch (const std::exception& error) {
    std::lock_guard lock(mutex_);
    last_.done = true;
    last_.error = error.what();
    throw;
  }
}

}  // namespace unity::gui
