#include "gui/panels/search/panel.h"

#include <algorithm>
#include <sstream>

#include "core/base/text.h"
#include "core/machine/topology.h"
#include "core/models/models.h"
#include "gui/widgets/chart_view.h"

namespace unity::gui {
namespace {

constexpr float kField = 78, kName = 92, kColumn = kName + kField + 12, kSettings = 170;
// Settings that are always shown; the others are behind a button.
constexpr const char* kFirst[] = {"budget", "time-limit", "seed", "memory-limit"};

int place_of(const std::vector<std::string>& list, const std::string& value) {
  auto at = std::find(list.begin(), list.end(), value);
  return at == list.end() ? -1 : static_cast<int>(at - list.begin());
}

// How many devices of its nodes a plan uses; 0: all.
int part_of_nodes(const Plan& plan) {
  try {
    auto all = load_topology(plan.topology, {plan.nodes, 0}).device_count();
    return static_cast<std::size_t>(plan.devices) == all ? 0 : plan.devices;
  } catch (const InputError&) {  // it is gone: the search says so
    return plan.devices;
  }
}

}  // namespace

SearchPanel::SearchPanel(const PanelTools& tools)
    : tools_(tools), models_(model_names()), topologies_(topology_names()), strategies_(strategy_names()) {
  request_.model.model = "bert-large";
  request_.topology = "summit";
  request_.nodes = 1;
}

void SearchPanel::remember(const std::string& name, const std::string& value) {
  set_field(request_, name, value);
  set_[name] = value;
}

void SearchPanel::forget_sizes() {
  for (const char* size : {"batch-per-gpu", "seq-len", "layers"}) remember(size, "0");
  request_.model.options.clear();
  set_.erase("option");
}

void SearchPanel::remember_sizes(const Plan& plan) {
  forget_sizes();
  std::vector<std::string> options;
  for (const auto& [name, value] : plan.model.options) {
    if (name == "batch" && value % plan.devices == 0)
      remember("batch-per-gpu", std::to_string(value / plan.devices));
    else if ((name == "seq-len" || name == "layers") && value > 0)
      remember(name, std::to_string(value));
    else
      options.push_back(fmt::format("{}={}", name, value));
  }
  if (!options.empty()) remember("option", join(options, ","));
}

void SearchPanel::start(Session& session) {
  problem_.clear();
  Result<void> started = session.search(request_);
  if (!started.ok()) problem_ = started.error().message;
}

void SearchPanel::open_plan(Session& session, std::size_t index) {
  std::vector<Snapshot> found = session.search_run() ? session.search_run()->found() : std::vector<Snapshot>();
  if (index >= found.size())
    throw_input_error("search.open: found plan {}, expected one of the {} that were found", index, found.size());
  for (std::size_t f = 0; f < session.files().size(); ++f)
    if (session.files()[f]->history.now() == found[index]) return session.activate(f);
  session.add(found[index]);
}

void SearchPanel::add_commands(Session& session) {
  session.commands.add({"search.start", "Search: start", "Ctrl+Enter", [&session] { return !session.searching(); },
                        [this, &session](const Arguments&) { start(session); }});
  session.commands.add({"search.stop", "Search: stop, and keep the best so far", "Ctrl+.",
                        [&session] { return session.searching(); },
                        [&session](const Arguments&) { session.search_run()->stop(); }});
  session.commands.add({"search.settings", "Search: all settings, or the main ones", "Ctrl+Shift+A",
                        [] { return true; }, [this](const Arguments&) { all_settings_ = !all_settings_; }});
  session.commands.add({"search.as_document", "Search: for the model and machine of this document", "",
                        [&session] { return session.document() && session.document()->plan; },
                        [this, &session](const Arguments&) {
                          const Plan& plan = *session.document()->plan;
                          remember("model", plan.model.name);
                          remember("topology", plan.topology);
                          remember("nodes", std::to_string(plan.nodes));
                          remember("devices", std::to_string(part_of_nodes(plan)));
                          remember_sizes(plan);
                        }});
  session.commands.add({"search.set", "Search: set ..", "", [] { return true; },
                        [this](const Arguments& a) {
                          for (const auto& [name, value] : a) remember(name, value);
                        },
                        false});
  session.commands.add({"search.next_plan", "Search: open the next plan it found", "",
                        [&session] { return session.search_run() && !session.search_run()->found().empty(); },
                        [this, &session](const Arguments&) {
                          std::vector<Snapshot> found = session.search_run()->found();
                          auto now = std::find(found.begin(), found.end(), session.document());
                          std::size_t next = now == found.end() ? 0 : static_cast<std::size_t>(now - found.begin()) + 1;
                          open_plan(session, next % found.size());
                        }});
  session.commands.add({"search.open", "Search: open plan ..", "",
                        [&session] { return session.search_run() && !session.search_run()->found().empty(); },
                        [this, &session](const Arguments& a) {
                          open_plan(session,
                                    a.contains("plan") ? static_cast<std::size_t>(std::atoi(a.at("plan").c_str())) : 0);
                        },
                        false});
}

std::string SearchPanel::save() const {
  std::string text;
  for (const auto& [name, value] : set_) text += name + " " + value + "\n";
  return text;
}

void SearchPanel::load(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::size_t blank = line.find(' ');
    try {
      if (blank != std::string::npos) remember(line.substr(0, blank), line.substr(blank + 1));
    } catch (const InputError&) {  // of another version
    }
  }
}

std::optional<Drawing> SearchPanel::drawing(const Theme& theme) const {
  if (shown_.charts.empty()) return std::nullopt;
  std::vector<report::Chart> charts = shown_.charts;
  if (!shown_.front.series.empty()) charts.push_back(shown_.front);
  Rect area{0, 0, 1200, charts.size() > 4 ? 900.0f : 600.0f};
  return Drawing{area, [charts, area, &theme](Painter& painter) {
                   PainterSheet sheet(painter, theme);
                   draw_chart_grid(sheet, charts, 2, area);
                 }};
}

void SearchPanel::draw_request(Ui& ui, Session& session) {
  const Theme& theme = ui.theme();
  auto choice = [&](const char* name, std::vector<std::string> choices, const std::string& value, float width,
                    const char* tip) {
    int at = place_of(choices, value);
    if (at < 0) {  // a file
      at = static_cast<int>(choices.size());
      choices.push_back(value);
    }
    int before = at;
    if (ui.choose(name, choices, at, width, tip) && at != before && at < static_cast<int>(choices.size())) return at;
    return -1;
  };
  ImGui::AlignTextToFramePadding();
  ui.text("model", theme.dim);
  ImGui::SameLine(ui.unit(64));
  if (int at = choice("search model", models_, request_.model.model, 168, "What is to be trained"); at >= 0) {
    remember("model", models_[static_cast<std::size_t>(at)]);
    forget_sizes();  // they are another model's
  }
  ui.flow(8, 136);
  ui.text("on", theme.dim);
  ui.same_line();
  if (int at = choice("search topology", topologies_, request_.topology, 128, "The machine"); at >= 0)
    remember("topology", topologies_[static_cast<std::size_t>(at)]);
  ui.flow(8, 106);
  ui.text("nodes", theme.dim);
  ui.same_line(6);
  int nodes = request_.nodes;
  if (ui.number("search nodes", nodes, 100)) remember("nodes", std::to_string(std::max(nodes, 1)));
  ImGui::AlignTextToFramePadding();
  ui.text("by", theme.dim);
  ImGui::SameLine(ui.unit(64));
  if (int at = choice("search strategy", strategies_, request_.strategy, 168, "How the plan is found"); at >= 0)
    remember("strategy", strategies_[static_cast<std::size_t>(at)]);
  ui.flow();
  bool pareto = request_.settings.search.pareto;
  if (ui.checkbox("pareto", "also plans that need less memory", pareto,
                  "All plans among which time and memory are a choice (--pareto)"))
    remember("pareto", pareto ? "true" : "false");
  draw_settings(ui);
  bool runs = session.searching();
  if (ui.button("start search", "Start", "Search in the background (Ctrl+Enter)", !runs)) start(session);
  ui.flow(6);
  if (ui.button("stop search", "Stop", "End the search; the best plan so far opens, marked as such (Ctrl+.)", runs))
    session.search_run()->stop();
  ui.flow(6);
  if (ui.button("all settings", all_settings_ ? "Fewer settings" : "All settings",
                "What else a search can be told (Ctrl+Shift+A)"))
    all_settings_ = !all_settings_;
  ui.flow(6);
  bool plan = session.document() && session.document()->plan;
  if (ui.button("as document", "As this document", "Search for the model and machine of the document in front", plan))
    session.commands.run("search.as_document").value();
  if (!problem_.empty()) ui.wrapped(problem_, theme.error);
}

void SearchPanel::draw_settings(Ui& ui) {
  std::vector<report::SettingField> fields = report::setting_fields(request_.settings);
  for (const report::SettingField& field : report::setting_fields(request_.settings.schedule)) fields.push_back(field);
  auto draw_field = [&](const report::SettingField& field) {
    if (auto* flag = std::get_if<bool*>(&field.value)) {
      bool without = !**flag;
      if (ui.checkbox(field.name, field.name, without, field.help)) remember(field.name, without ? "true" : "false");
      return;
    }
    ImGui::AlignTextToFramePadding();
    float x = ImGui::GetCursorPosX();
    ui.text(field.name, ui.theme().dim);
    ui.tooltip(field.help);
    ImGui::SameLine(x + ui.unit(kName));
    std::string text = set_.contains(field.name) ? set_[field.name] : field_text(field);
    if (ui.input("setting " + field.name, text, "default", kField)) {
      set_[field.name] = text;
      try {
        set_field(request_, field.name, text);
        problem_.clear();
      } catch (const InputError& error) {
        problem_ = error.what();
      }
    }
    ui.tooltip(field.help);
  };
  float width = ImGui::GetContentRegionAvail().x;
  auto columns = std::max(1, static_cast<int>(width / ui.unit(kColumn)));
  auto rows_of = [&](const std::vector<const report::SettingField*>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i % static_cast<std::size_t>(columns) != 0)
        ImGui::SameLine(static_cast<float>(i % static_cast<std::size_t>(columns)) * ui.unit(kColumn));
      draw_field(*list[i]);
    }
  };
  std::vector<const report::SettingField*> first, rest;
  for (const report::SettingField& field : fields)
    (std::find(std::begin(kFirst), std::end(kFirst), field.name) != std::end(kFirst) ? first : rest).push_back(&field);
  rows_of(first);
  if (!all_settings_) return;
  auto rows =
      static_cast<float>((rest.size() + static_cast<std::size_t>(columns) - 1) / static_cast<std::size_t>(columns));
  ImGui::BeginChild("settings", {0, std::min(rows * ImGui::GetFrameHeightWithSpacing(), ui.unit(kSettings))});
  rows_of(rest);
  ImGui::EndChild();
}

void SearchPanel::draw_status(Ui& ui, Session& session) {
  const Theme& theme = ui.theme();
  const std::shared_ptr<SearchRun>& run = session.search_run();
  if (!run) {
    ui.wrapped(
        "A search tries rewritings, parallelizations and mappings, and ends with the fastest plan that fits. It "
        "runs in the background, and shows here what it has found, scored and left out.",
        theme.dim);
    return;
  }
  SearchRun::Status status = run->status();
  std::vector<Snapshot> found = run->found();
  shown_ = search_view(status, found);
  float width = ImGui::GetContentRegionAvail().x / ui.fonts().scale();
  const SearchRequest& request = run->request();
  std::string title = fmt::format("{} on {} by {}", request.model.model, request.topology, request.strategy);
  ui.text(elide(tools_.metrics, title, 15, Face::strong, width - 12), theme.text, Face::strong, 15);
  for (const auto& [label, value] : shown_.facts) {
    std::string text = elide(tools_.metrics, value, 13, Face::mono, width - 110);
    ui.fact(label, text, 96);
    if (text != value) ui.tooltip(value);
  }
  if (!status.error.empty()) ui.wrapped(status.error, theme.error);
  ImVec2 room = ImGui::GetContentRegionAvail();
  std::vector<report::Chart> charts = shown_.charts;
  std::size_t columns = room.x > ui.unit(560) ? 2 : 1;
  bool front = !shown_.front.series.empty() && shown_.front.series[0].points.size() > 1;
  // The front stands first, where there is something to choose.
  if (front) charts[1] = charts[0], charts[0] = shown_.front;
  ImGui::BeginChild("search charts", {0, 0});
  ChartClick click = draw_charts(
      ui, "search", {ImGui::GetContentRegionAvail().x, std::max(room.y, ui.unit(least_height(charts, columns)))},
      charts, columns);
  ImGui::EndChild();
  // Marks are numbered in the order in which charts are drawn.
  if (front && click.mark && *click.mark < found.size()) open_plan(session, *click.mark);
}

void SearchPanel::draw(Ui& ui, Session& session) {
  draw_request(ui, session);
  ui.gap(4);
  draw_status(ui, session);
}

}  // namespace unity::gui
