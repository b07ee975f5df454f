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

SavedDocument saved_document(const Document& document) {
  SavedDocument saved{document.request, {}, {}, {}, false};
  // The next start may be in another folder.
  std::error_code error;
  fs::path source(saved.request.source);
  if (fs::is_regular_file(source, error) || fs::exists(source / "results.json", error))
    saved.request.source = fs::absolute(source).string();
  if (!document.plan || in_a_file(document)) return saved;
  saved.title = document.title;
  for (const Scale& scale : document.scales) saved.scales.push_back(scale.text());
  saved.edited = document.edited;
  return saved;
}

}  // namespace

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
  return out.dump(2) + "\n";
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
      // Named by what it says, so that one that is there is not written again.
      std::string text = plan_to_json(*document->plan);
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

Snapshot restore_document(const SavedDocument& saved, const std::string& state_path,
                          const std::function<void(double, const std::string&)>& progress,
                          const std::atomic<bool>* stop, std::string& note) {
  if (saved.plan.empty()) return open_document(saved.request, progress, stop);
  try {
    OpenRequest kept = saved.request;
    // A name that is none of a file of the folder was not written by us.
    kept.source = (plans_folder(state_path) / fs::path(saved.plan).filename()).string();
    auto document = std::make_shared<Document>(*open_document(kept, progress, stop));
    document->request = saved.request;
    document->title = saved.title;
    for (const std::string& scale : saved.scales) document->scales.push_back(parse_scale(scale));
    document->edited = saved.edited;
    return document;
  } catch (const InputError& error) {
    note = fmt::format("{} is not as it was: {}", saved.title, error.what());
    return open_document(saved.request, progress, stop);
  }
}

std::string default_state_path() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
    return (fs::path(state) / "unity" / "gui.json").string();
  if (const char* home = std::getenv("HOME"); home && *home)
    return (fs::path(home) / ".local" / "state" / "unity" / "gui.json").string();
  return {};
}

}  // namespace unity::gui
