#include "gui/session/state.h"

#include <cstdlib>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/hash.h"
#include "core/base/nesting.h"
#include "core/base/text.h"

namespace unity::gui {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

// "gui.json" -> "gui.plans"
fs::path plans_folder(const std::string& state_path) { return fs::path(state_path).replace_extension("plans"); }

// A plan that the request leads to at once: a file that has it, as it is.
bool in_a_file(const Document& document) { return !document.edited && document.request.source.ends_with(".json"); }

// As load_topology() tells them from names.
bool is_topology_file(const std::string& topology) {
  return topology.find('/') != std::string::npos || topology.ends_with(".yaml");
}

SavedDocument saved_document(const Document& document) {
  SavedDocument saved;
  saved.request = document.request;
  if (document.plan && saved.request.topology.empty() && is_topology_file(document.plan->topology))
    saved.request.topology = document.plan->topology;
  saved.request = with_whole_paths(saved.request);
  if (!document.plan || in_a_file(document)) return saved;
  saved.title = document.title;
  for (const Scale& scale : document.scales) saved.scales.push_back(scale.text());
  saved.edited = document.edited;
  saved.found = document.found;
  return saved;
}

}  // namespace

OpenRequest with_whole_paths(OpenRequest request) {
  std::error_code error;
  fs::path source(request.source);
  if (fs::is_regular_file(source, error) || fs::exists(source / "results.json", error))
    request.source = fs::absolute(source).string();
  if (is_topology_file(request.topology)) request.topology = fs::absolute(request.topology).string();
  return request;
}

std::string to_json(const SavedState& state) {
  ordered_json open = ordered_json::array();
  for (const SavedDocument& document : state.open) {
    const OpenRequest& r = document.request;
    open.push_back({{"source", r.source},
                    {"topology", r.topology},
                    {"nodes", r.nodes},
                    {"devices", r.devices},
                    {"strategy", r.strategy}});
    if (document.plan.empty()) continue;
    open.back()["title"] = document.title;
    open.back()["plan"] = document.plan;
    open.back()["scales"] = document.scales;
    open.back()["edited"] = document.edited;
    open.back()["found"] = document.found;
  }
  ordered_json out = {{"format", "unity-gui-state"},
                      {"version", SavedState::kVersion},
                      {"open", open},
                      {"active", state.active},
                      {"dark", state.dark},
                      {"selected", state.selected},
                      {"splits", state.splits},
                      {"visible", state.visible},
                      {"tabs", state.tabs},
                      {"panels", state.panels}};
  // Paths may hold any bytes; one that is not found again is better than nothing kept.
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

SavedState state_from_json(const std::string& text, const std::string& file) {
  refuse_deep_json(text, file);
  SavedState state;
  try {
    ordered_json in = ordered_json::parse(text);
    if (in.at("format") != "unity-gui-state") throw_input_error("{}: is no state of unity-gui", file);
    if (in.at("version") > SavedState::kVersion)
      throw_input_error("{}: found version {}, expected at most {}", file, in.at("version").get<int>(),
                        SavedState::kVersion);
    for (const ordered_json& r : in.at("open")) {
      SavedDocument document;
      document.request = {r.at("source"), r.at("topology"), r.at("nodes"), r.at("devices"), r.at("strategy")};
      if (r.contains("plan")) {
        r.at("title").get_to(document.title);
        r.at("plan").get_to(document.plan);
        r.at("scales").get_to(document.scales);
        r.at("edited").get_to(document.edited);
        document.found = r.value("found", false);
      }
      state.open.push_back(std::move(document));
    }
    in.at("active").get_to(state.active);
    in.at("dark").get_to(state.dark);
    in.at("selected").get_to(state.selected);
    in.at("splits").get_to(state.splits);
    in.at("visible").get_to(state.visible);
    in.at("tabs").get_to(state.tabs);
    in.at("panels").get_to(state.panels);
  } catch (const ordered_json::exception& error) {
    throw_input_error("{}: is no state of unity-gui: {}", file, error.what());
  }
  return state;
}

std::string move_state_aside(const std::string& path) {
  const fs::path from = path;
  for (int n = 1;; ++n) {
    std::string number = n > 1 ? fmt::format("-{}", n) : std::string();
    fs::path to = from.parent_path() / (from.stem().string() + "-kept" + number + from.extension().string());
    if (fs::exists(to) || fs::exists(plans_folder(to.string()))) continue;
    std::error_code error;
    if (fs::exists(plans_folder(path))) fs::rename(plans_folder(path), plans_folder(to.string()), error);
    if (!error) fs::rename(from, to, error);
    if (error) throw_input_error("{}: cannot be moved to {}: {}", path, to.string(), error.message());
    return to.string();
  }
}

void write_session(SavedState state, const std::vector<Snapshot>& documents, const std::string& path) {
  fs::path folder = plans_folder(path);
  std::error_code error;
  fs::create_directories(fs::absolute(path).parent_path(), error);
  std::set<std::string> kept;
  for (const SavedDocument& saved : state.open) kept.insert(saved.plan);
  std::vector<SavedDocument> open;
  for (const Snapshot& document : documents) {
    SavedDocument saved = saved_document(*document);
    if (document->plan && !in_a_file(*document)) {
      Plan plan = *document->plan;
      if (is_topology_file(plan.topology)) plan.topology = fs::absolute(plan.topology).string();
      // Named by what it says, so that one that is there is not written again.
      std::string text = plan_to_json(plan);
      saved.plan = fmt::format("{:016x}.json", hash_text(text));
      fs::create_directories(folder, error);
      if (kept.insert(saved.plan).second && !fs::exists(folder / saved.plan, error))
        write_file_atomically((folder / saved.plan).string(), text);
    }
    open.push_back(std::move(saved));
  }
  state.open.insert(state.open.begin(), open.begin(), open.end());
  write_file_atomically(path, to_json(state));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".json" && !kept.contains(entry.path().filename().string()))
      fs::remove(entry.path(), error);
  if (kept.empty()) fs::remove(folder, error);
}

std::string copy_of(const SavedDocument& saved, const std::string& state_path) {
  if (saved.plan.empty()) return {};
  // A name that is none of a file of the folder was not written by us.
  fs::path copy = plans_folder(state_path) / fs::path(saved.plan).filename();
  std::error_code error;
  return fs::is_regular_file(copy, error) ? copy.string() : std::string();
}

Snapshot restore_document(const SavedDocument& saved, const std::string& state_path,
                          const std::function<void(double, const std::string&)>& progress,
                          const std::atomic<bool>* stop, std::string& note) {
  OpenRequest kept = saved.request;
  kept.source = copy_of(saved, state_path);
  if (kept.source.empty()) {
    if (!saved.plan.empty()) note = fmt::format("{} is not as it was: its plan {} is gone", saved.title, saved.plan);
    return open_document(saved.request, progress, stop);
  }
  auto document = std::make_shared<Document>(*open_document(kept, progress, stop));
  document->request = saved.request;
  document->title = saved.title;
  for (const std::string& scale : saved.scales) document->scales.push_back(parse_scale(scale));
  document->edited = saved.edited;
  document->found = saved.found;
  return document;
}

std::string default_state_path() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
    return (fs::path(state) / "unity" / "gui.json").string();
  if (const char* home = std::getenv("HOME"); home && *home)
    return (fs::path(home) / ".local" / "state" / "unity" / "gui.json").string();
  return {};
}

}  // namespace unity::gui
