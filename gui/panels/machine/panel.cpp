#include "gui/panels/machine/panel.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/base/text.h"
#include "core/machine/mapping_families.h"
#include "core/search/explain.h"

namespace unity::gui {
namespace {

constexpr double kLeastFactor = 0.125, kMostFactor = 8;
// Below kNarrow, what stands side by side stands one below the other.
constexpr float kNarrow = 560, kWhatIf = 248, kDims = 236, kGridBelow = 150;

std::string in_words(const GridPlaces& grid, const MachineMapping& mapping) {
  std::vector<std::string> words;
  for (const GridPlaces::Dim& dim : grid.dims)
    words.push_back(fmt::format("{} {}: {}", dim.name, dim.degree,
                                dim.level.empty() ? fmt::format("in steps of {}", dim.stride) : "by " + dim.level));
  if (words.empty()) return fmt::format("one task on device {}", mapping.start);
  return join(words, ", ") + (mapping.start ? fmt::format(", from device {}", mapping.start) : "");
}

std::string strides_text(const MachineMapping& mapping) {
  std::string text;
  for (int stride : mapping.strides) text += (text.empty() ? "" : " ") + std::to_string(stride);
  return text;
}

}  // namespace

void MachinePanel::add_commands(Session& session) {
  auto have = [&session] { return session.document() && session.document()->topology; };
  session.commands.add(
      {"machine.fit", "Machine: show all", "Ctrl+9", have, [this](const Arguments&) { canvas_.fit(); }});
  session.commands.add({"machine.mean", "Machine: load at a time, or its mean", "Ctrl+M", have,
                        [this](const Arguments&) { mean_ = !mean_; }});
  session.commands.add({"machine.time", "Machine: load at ..", "", have,
                        [this](const Arguments& a) {
                          double at = a.contains("at") ? std::atof(a.at("at").c_str()) : -1;
                          if (!(at >= 0 && at <= 1)) throw_input_error("machine.time: needs 'at' between 0 and 1");
                          mean_ = false;
                          time_ = at;
                        },
                        false});
}

std::string MachinePanel::save() const { return fmt::format("{} {} {}", mean_, time_, all_alike_); }

void MachinePanel::load(const std::string& text) {
  std::istringstream in(text);
  in >> mean_ >> time_ >> all_alike_;
}

MachineLook MachinePanel::look(const Theme& theme, const Session&) const {
  MachineLook look{theme, tools_.metrics};
  look.topology = topology_.get();
  look.load = load_.data().get();
  look.time = mean_ ? -1 : time_;
  return look;
}

std::optional<Drawing> MachinePanel::drawing(const Theme& theme) const {
  auto places = places_.data();
  if (!places || !topology_) return std::nullopt;
  MachineLook look{theme, tools_.metrics};
  look.topology = topology_.get();
  look.load = load_.data().get();
  if (look.load && look.load->device_busy.size() != topology_->device_count()) look.load = nullptr;
  look.time = mean_ ? -1 : time_;
  look.tasks = last_.tasks;
  look.device = last_.device;
  look.link = last_.link;
  look.iteration = last_.iteration;
  Drawing drawing{places->bounds.grown(10),
                  [places, look](Painter& painter) { paint_machine(painter, *places, look); }};
  if (mapped_.cells.empty()) return drawing;
  // The selected operator's grid stands below.
  constexpr float kTitle = 40;
  GridPlaces grid = mapped_;
  float dx = places->bounds.x - grid.bounds.x, dy = places->bounds.bottom() + kTitle - grid.bounds.y;
  for (Rect& cell : grid.cells) cell.x += dx, cell.y += dy;
  for (auto& [at, label] : grid.labels) at.x += dx, at.y += dy;
  grid.bounds.x += dx, grid.bounds.y += dy;
  drawing.bounds = unite(drawing.bounds, grid.bounds.grown(10));
  drawing.paint = [paint = drawing.paint, grid, look, title = mapped_title_](Painter& painter) {
    paint(painter);
    painter.text({grid.bounds.x, grid.bounds.y - kTitle / 2}, title, {15, look.theme.text, Face::strong});
    paint_grid(painter, grid, *look.topology, look.theme, look.device);
  };
  return drawing;
}

void MachinePanel::draw(Ui& ui, Session& session) {
  Snapshot document = session.document();
  if (!document || !document->topology) {
    ui.wrapped(document && document->sweep ? "The result of a sweep has no machine: open the plan of one of its rows."
               : document ? "This is a model without a plan. Open it with a machine (Ctrl+O) to see where it runs."
                          : "no document is open",
               ui.theme().dim);
    return;
  }
  if (topology_ != document->topology) {
    topology_ = document->topology;
    canvas_.fit();
  }
  float room = ImGui::GetContentRegionAvail().y, below = std::min(ui.unit(262), room * 0.5f);
  draw_machine(ui, session, room - below - ui.unit(36));
  draw_time(ui);
  bool narrow = ImGui::GetContentRegionAvail().x < ui.unit(kNarrow);
  ImGui::BeginChild("mapping", {narrow ? 0 : ImGui::GetContentRegionAvail().x - ui.unit(kWhatIf), 0});
  draw_mapping(ui, session, narrow ? ui.unit(kGridBelow) : 0);
  if (narrow) ui.gap();
  if (narrow) draw_scales(ui, session);
  ImGui::EndChild();
  if (narrow) return;
  ImGui::SameLine(0, ui.unit(14));
  ImGui::BeginChild("what if", {0, 0});
  draw_scales(ui, session);
  ImGui::EndChild();
}

void MachinePanel::draw_machine(Ui& ui, Session& session, float height) {
  Snapshot document = session.document();
  const Plan& plan = *document->plan;
  float width = ImGui::GetContentRegionAvail().x;
  double aspect = std::round(3 * static_cast<double>(width) / std::max(height, 1.0f)) / 3;
  const MachinePlaces* places =
      places_.get(session, "machine", {topology_, aspect},
                  [](const PlacesKey& of, JobState&) { return place_machine(*of.topology, of.aspect); });
  if (fitted_ != places_.version()) {
    fitted_ = places_.version();
    canvas_.fit();
  }
  PredictionPtr prediction = session.prediction();
  if (prediction && prediction->whole && prediction->error.empty())
    load_.get(session, "load", {prediction}, [topology = topology_](const LoadKey& key, JobState&) {
      PredictionPtr of = key.of.lock();
      return of ? machine_load(*topology, *of) : MachineLoad();
    });
  if (!places || places->devices.size() != topology_->device_count()) {
    ImGui::Dummy({width, height});
    return;
  }
  MachineLook now = look(ui.theme(), session);
  if (now.load && now.load->device_busy.size() != topology_->device_count()) now.load = nullptr;
  now.iteration = prediction ? prediction->iteration.count : 0;
  const Selection& selection = session.selection();
  if (NodeId node = selection.node(); node.valid() && has_tasks(plan.pcg, node, plan.mappings[node.index()]))
    now.tasks =
        tasks_by_device(plan.pcg, node, plan.mappings[node.index()], static_cast<int>(topology_->device_count()));
  if (selection.kind == Selection::Kind::device) now.device = selection.device;
  if (selection.kind == Selection::Kind::link) now.link = selection.link;
  last_ = {now.tasks, now.device, now.link, now.iteration};
  canvas_.most_scale = 1.6f;
  Canvas::Input input = canvas_.draw(
      ui, "machine", {width, height}, places->bounds, [&](Painter& painter) { paint_machine(painter, *places, now); },
      [&](Painter& painter) {
        for (const MachinePlaces::Part& part : places->parts)
          if (part.level == 0) painter.rect(part.box, ui.theme().border, 0);
      });
  if (!input.hovered) return;
  Point at = *input.hovered;
  const std::vector<Rect>& boxes = is_far(*places, canvas_.view().scale) ? places->far_devices : places->devices;
  for (std::size_t d = 0; d < boxes.size(); ++d) {
    if (!boxes[d].contains(at)) continue;
    DeviceId device(static_cast<std::int64_t>(d));
    if (input.clicked) session.select(Selection::of(device));
    std::string tip =
        fmt::format("{} (device {})\n{}", topology_->device(device).name, d, topology_->spec(device).name);
    if (now.load)
      tip += fmt::format("\nbusy {:.0f}% of the iteration, memory {:.0f}% full", 100 * now.load->device_busy[d],
                         100 * now.load->device_memory[d]);
    ui.tooltip(tip);
    return;
  }
  const MachinePlaces::Wire* best = nullptr;
  float nearest = 6 / canvas_.view().scale;
  for (const MachinePlaces::Wire& wire : places->wires)
    for (std::size_t i = 1; i < wire.path.size(); ++i) {
      Point a = wire.path[i - 1], b = wire.path[i];
      float dx = b.x - a.x, dy = b.y - a.y, length = std::max(dx * dx + dy * dy, 1e-6f);
      float t = std::clamp(((at.x - a.x) * dx + (at.y - a.y) * dy) / length, 0.0f, 1.0f);
      float far = std::hypot(a.x + t * dx - at.x, a.y + t * dy - at.y);
      if (far <= nearest) nearest = far, best = &wire;
    }
  if (!best) {
    if (input.clicked && (selection.kind == Selection::Kind::device || selection.kind == Selection::Kind::link))
      session.select({});
    return;
  }
  if (input.clicked) session.select(Selection::of(best->forward));
  std::string tip;
  for (LinkId id : {best->forward, best->back}) {
    if (!id.valid()) continue;
    const Link& link = topology_->links[id.index()];
    tip += fmt::format("{}{} -> {}: {} {}", tip.empty() ? "" : "\n", topology_->vertices[link.from.index()].name,
                       topology_->vertices[link.to.index()].name, to_string(link.kind), to_string(link.bandwidth));
    if (now.load)
      tip += fmt::format(", carries {}, {:.1f}% used", to_string(now.load->link_bytes[id.index()]),
                         100 * now.load->link_mean[id.index()]);
  }
  ui.tooltip(tip);
}

void MachinePanel::draw_time(Ui& ui) {
  ui.checkbox("mean", "mean load", mean_,
              "Links show their mean load over the iteration, else that at a time (Ctrl+M)");
  ImGui::BeginDisabled(mean_);
  bool done = false;
  ui.flow();
  ui.slider("machine time", time_, 0, 1, "", 200, done, false);
  ui.flow(6);
  Picoseconds at{static_cast<std::int64_t>(time_ * static_cast<double>(last_.iteration))};
  ui.text(mean_ ? std::string("over the iteration") : "at " + to_string(at), ui.theme().dim);
  ImGui::EndDisabled();
  ui.flow(16, 150);
  ui.ramp("idle", "busy", 110);
}

std::vector<NodeId> MachinePanel::alike(const Document& document, NodeId node) const {
  if (!all_alike_) return {node};
  const Plan& plan = *document.plan;
  std::string label = without_indices(plan.pcg[node].name);
  TaskGrid grid = node_grid(plan.pcg, node);
  auto same_grid = [&](const TaskGrid& other) {
    return std::equal(grid.begin(), grid.end(), other.begin(), other.end(), [](const GridDim& a, const GridDim& b) {
      return a.kind == b.kind && a.axis == b.axis && a.degree == b.degree;
    });
  };
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i < plan.pcg.size(); ++i) {
    const Node& other = plan.pcg.nodes()[i];
    NodeId id(static_cast<std::int64_t>(i));
    if (other.op == plan.pcg[node].op && plan.mappings[i] == plan.mappings[node.index()] &&
        without_indices(other.name) == label && same_grid(node_grid(plan.pcg, id)))
      nodes.push_back(id);
  }
  return nodes;
}

void MachinePanel::apply(Session& session, NodeId node, const MachineMapping& mapping) {
  Snapshot document = session.document();
  std::string nodes;
  for (NodeId id : alike(*document, node)) nodes += (nodes.empty() ? "" : " ") + std::to_string(id.value);
  Arguments arguments = {
      {"nodes", nodes}, {"start", std::to_string(mapping.start)}, {"strides", strides_text(mapping)}};
  Result<void> done = session.commands.run("set_mapping", arguments);
  if (!done.ok()) problem_ = done.error().message;
}

void MachinePanel::draw_dims(Ui& ui, Session& session, NodeId node, const TaskGrid& grid) {
  GridPlaces places =
      place_grid(session.document()->graph(), node, edit_.strides.size() == grid.size() ? shown_ : edit_, *topology_);
  std::vector<std::pair<std::string, int>> levels = level_strides(*topology_);
  bool changed = false;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    ImGui::AlignTextToFramePadding();
    ui.text(fmt::format("{}, in {}", places.dims[i].name, grid[i].degree), ui.theme().dim);
    std::vector<std::string> choices;
    int chosen = -1;
    for (const auto& [name, stride] : levels) {
      if (stride == edit_.strides[i]) chosen = static_cast<int>(choices.size());
      choices.push_back("by " + name);
    }
    if (chosen < 0) {
      chosen = static_cast<int>(choices.size());
      choices.emplace_back("by stride");
    }
    if (ui.choose(fmt::format("level {}", i), choices, chosen, 104,
                  "What a step along this dimension of the grid walks: the next part of this level") &&
        chosen < static_cast<int>(levels.size())) {
      edit_.strides[i] = levels[static_cast<std::size_t>(chosen)].second;
      changed = true;
    }
    ui.same_line(4);
    changed |= ui.number(fmt::format("stride {}", i), edit_.strides[i], 104);
  }
  ImGui::AlignTextToFramePadding();
  ui.text("first device", ui.theme().dim);
  ImGui::SameLine(ui.unit(104) + ui.unit(4));
  changed |= ui.number("start", edit_.start, 104);
  if (!changed) return;
  Result<void> fits = check_mapping(edit_, grid, static_cast<int>(topology_->device_count()));
  problem_ = fits.ok() ? "" : fits.error().message;
  if (fits.ok() && edit_ != shown_) apply(session, node, edit_);
}

void MachinePanel::draw_mapping(Ui& ui, Session& session, float grid_below) {
  Snapshot document = session.document();
  const Plan& plan = *document->plan;
  NodeId node = session.selection().node();
  mapped_ = {};
  if (!node.valid() || !has_tasks(plan.pcg, node, plan.mappings[node.index()])) {
    ui.heading("Mapping");
    ui.wrapped(node.valid() ? "This has no tasks: inputs and parallelization only say which data lie where."
                            : "Select an operator to see on which devices its tasks run, and to map it anew.",
               ui.theme().dim);
    return;
  }
  const MachineMapping& mapping = plan.mappings[node.index()];
  TaskGrid grid = node_grid(plan.pcg, node);
  if (edited_ != node || shown_ != mapping) {
    if (edited_ != node) grid_canvas_.fit();
    edited_ = node;
    edit_ = shown_ = mapping;
    problem_.clear();
    grid_canvas_.fit();
  }
  mapped_title_ = "Mapping of " + plan.pcg[node].name;
  float width = ImGui::GetContentRegionAvail().x / ui.fonts().scale();
  ui.text(elide(tools_.metrics, mapped_title_, 15, Face::strong, width), ui.theme().text, Face::strong, 15);
  bool editable = mapping.places.empty() && mapping.strides.size() == grid.size() && !grid.empty();
  if (!editable) {
    ui.wrapped(grid.empty() ? fmt::format("One task, on {}.", topology_->device(DeviceId(mapping.start)).name)
                            : "Its tasks go through a table of devices of unequal speed; the search makes that.",
               ui.theme().dim);
    if (grid.empty()) return;
  }
  GridPlaces places = place_grid(plan.pcg, node, mapping, *topology_, grid_aspect_);
  if (editable) {
    std::vector<MachineMapping> useful = mappings(grid, *topology_, {0, static_cast<int>(topology_->device_count())});
    if (topology_->mapping_families)
      for (MachineMapping& m : topology_->mapping_families->mappings(grid))
        if (m.places.empty() && std::find(useful.begin(), useful.end(), m) == useful.end()) useful.push_back(m);
    std::vector<std::string> names;
    int chosen = -1;
    for (std::size_t i = 0; i < useful.size(); ++i) {
      names.push_back(in_words(place_grid(plan.pcg, node, useful[i], *topology_), useful[i]));
      if (useful[i] == mapping) chosen = static_cast<int>(i);
    }
    if (chosen < 0) {
      chosen = static_cast<int>(names.size());
      names.push_back(in_words(places, mapping));
    }
    for (std::string& name : names) name = elide(tools_.metrics, name, 14, Face::text, width - 48);
    if (ui.choose("mappings", names, chosen, width - 4, "The mappings that the search tries") &&
        chosen < static_cast<int>(useful.size()))
      apply(session, node, useful[static_cast<std::size_t>(chosen)]);
    if (grid_below == 0) ImGui::BeginChild("dims", {ui.unit(kDims), 0});
    draw_dims(ui, session, node, grid);
    std::size_t count = alike(*document, node).size();
    ui.checkbox("all alike", fmt::format("and the {} alike", std::max<std::size_t>(count, 1) - 1), all_alike_,
                "Map all operators of this label but for numbers, which are mapped as this one is");
    if (!problem_.empty()) ui.wrapped(problem_, ui.theme().error);
    if (grid_below == 0) ImGui::EndChild();
    if (grid_below == 0) ImGui::SameLine(0, ui.unit(10));
  }
  ImVec2 room = ImGui::GetContentRegionAvail();
  if (grid_below > 0) room.y = grid_below;
  if (room.y < ui.unit(24) || room.x < ui.unit(24)) return;
  if (double aspect = room.x / room.y; std::abs(aspect / grid_aspect_ - 1) > 0.1) {
    grid_aspect_ = aspect;
    grid_canvas_.fit();
    places = place_grid(plan.pcg, node, mapping, *topology_, grid_aspect_);
  }
  mapped_ = places;
  DeviceId selected = session.selection().kind == Selection::Kind::device ? session.selection().device : DeviceId();
  grid_canvas_.most_scale = 1.4f;
  Canvas::Input input = grid_canvas_.draw(ui, "grid", {room.x, room.y}, places.bounds, [&](Painter& painter) {
    paint_grid(painter, places, *topology_, ui.theme(), selected);
  });
  if (!input.hovered) return;
  for (std::size_t i = 0; i < places.cells.size(); ++i)
    if (places.cells[i].contains(*input.hovered)) {
      std::vector<std::string> at;
      std::vector<int> coordinates = grid_coordinates(grid, static_cast<int>(i));
      for (std::size_t d = 0; d < coordinates.size(); ++d)
        at.push_back(fmt::format("{} {}", places.dims[d].name, coordinates[d]));
      ui.tooltip(fmt::format("{}\n{} (device {})", join(at), topology_->device(places.devices[i]).name,
                             places.devices[i].value));
    }
}

void MachinePanel::draw_scales(Ui& ui, Session& session) {
  Snapshot document = session.document();
  ui.heading("What if");
  auto factor_of = [&](const std::string& what) {
    for (const Scale& scale : document->scales)
      if (scale.text().starts_with(what + "=")) return scale.factor;
    return 1.0;
  };
  auto slider = [&](const std::string& what, const std::string& label, const std::string& tip) {
    auto dragged = factors_.find(what);
    double value = dragged != factors_.end() ? dragged->second : factor_of(what);
    bool done = false;
    ImGui::AlignTextToFramePadding();
    ui.text(label, ui.theme().text);
    ImGui::SameLine(ui.unit(80));
    float width = ImGui::GetContentRegionAvail().x / ui.fonts().scale() - 52;
    if (ui.slider(what, value, kLeastFactor, kMostFactor, "", std::max(width, 20.0f), done)) factors_[what] = value;
    ui.tooltip(tip + "; Ctrl+click to type a factor");
    ui.same_line(6);
    ui.text(fmt::format("x {:.3g}", value), value == 1 ? ui.theme().dim : ui.theme().accent, Face::mono, 13);
    if (!done || !factors_.contains(what)) return;
    Result<void> set =
        session.commands.run("set_scale", {{"what", what}, {"factor", fmt::format("{:.4g}", factors_[what])}});
    if (!set.ok()) session.complain(set.error().message);
    factors_.erase(what);
  };
  for (const std::string& kind : link_kinds(*topology_))
    if (kind != to_string(LinkKind::switching))
      slider("link:" + kind, kind, "Bandwidth of all " + kind + " links, times this");
  slider("device", "devices", "Speed of all devices, times this");
  PredictionPtr now = session.prediction(), before = session.prediction_before();
  if (!document->scales.empty()) {
    if (ui.button("reset scales", "Reset", "The machine as it is")) session.commands.run("reset_scales").value();
    ui.flow();
  }
  if (now && now->error.empty()) {
    ImGui::AlignTextToFramePadding();
    if (before && before->error.empty()) {
      ui.text(fmt::format("{} > {}", before->iteration_text(), now->iteration_text()), ui.theme().text, Face::mono, 13);
      double change = 100 * (now->iteration.seconds() / before->iteration.seconds() - 1);
      ui.text(fmt::format("{:+.2f}% by the last edit", change), change <= 0 ? ui.theme().good : ui.theme().error);
    } else {
      ui.text(now->iteration_text() + " per iteration", ui.theme().text, Face::mono, 13);
    }
  } else if (!now) {
    ImGui::AlignTextToFramePadding();
    ui.text("simulating ..", ui.theme().dim);
  }
}

}  // namespace unity::gui
