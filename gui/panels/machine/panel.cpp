#include "gui/panels/machine/panel.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/base/text.h"

namespace unity::gui {
namespace {

constexpr double kLeastFactor = 0.125, kMostFactor = 8;
// Below kNarrow, what stands side by side stands one below the other.
constexpr float kNarrow = 560, kWhatIf = 248, kGridBelow = 150;

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
  in >> std::boolalpha >> mean_ >> time_ >> all_alike_;
}

// Links and devices of another machine have other numbers, and another plan uses them otherwise.
const MachineLoad* MachinePanel::known_load() const {
  const auto& known = load_.data();
  return known && known->document == document_ ? &known->load : nullptr;
}

MachineLook MachinePanel::look(const Theme& theme, const Session&) const {
  MachineLook look{theme, tools_.metrics};
  look.topology = topology_.get();
  look.load = known_load();
  look.time = mean_ ? -1 : time_;
  return look;
}

std::optional<Drawing> MachinePanel::drawing(const Theme& theme) const {
  auto placed = places_.data();
  if (!placed || !topology_ || placed->topology != topology_) return std::nullopt;
  std::shared_ptr<const MachinePlaces> places(placed, &placed->places);
  MachineLook look{theme, tools_.metrics};
  look.topology = topology_.get();
  look.load = known_load();
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
  document_ = document;
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
  const Placed* placed = places_.get(session, "machine", {topology_, aspect}, [](const PlacesKey& of, JobState&) {
    return Placed{of.topology, place_machine(*of.topology, of.aspect)};
  });
  if (fitted_ != places_.version()) {
    fitted_ = places_.version();
    canvas_.fit();
  }
  PredictionPtr prediction = session.prediction();
  if (prediction && prediction->whole && prediction->error.empty())
    load_.get(session, "load", {prediction, document}, [](const LoadKey& key, JobState&) {
      PredictionPtr of = key.of.lock();
      // Without it there will be another key.
      return of ? Load{key.document, machine_load(*key.document->topology, *of)} : Load();
    });
  if (!placed || placed->topology != topology_) {
    ImGui::Dummy({width, height});
    return;
  }
  const MachinePlaces* places = &placed->places;
  MachineLook now = look(ui.theme(), session);
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
