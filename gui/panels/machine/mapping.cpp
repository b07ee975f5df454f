// The fields of the selected operator's mapping.
#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "core/machine/mapping_families.h"
#include "core/search/explain.h"
#include "gui/panels/machine/panel.h"

namespace unity::gui {
namespace {

constexpr float kDims = 236;  // width of the fields beside the grid

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

}  // namespace unity::gui
