#include <algorithm>

#include "gui/panels/machine/places.h"

namespace unity::gui {
namespace {

void paint_wire(Painter& painter, const MachinePlaces::Wire& wire, const MachineLook& look) {
  if (!painter.shows(wire.around)) return;
  double use = 0;
  if (look.load)
    for (LinkId id : {wire.forward, wire.back})
      if (id.valid())
        use = std::max(use, look.time < 0
                                ? look.load->link_mean[id.index()]
                                : look.load->link_at(id.index(), static_cast<std::int64_t>(
                                                                     look.time * static_cast<double>(look.iteration))));
  bool selected = look.link.valid() && (look.link == wire.forward || look.link == wire.back);
  Color color = selected    ? look.theme.selected
                : look.load ? blend(look.theme.border, look.theme.ramp(0.25 + 0.75 * use), use > 0.004 ? 1 : 0.2f)
                            : look.theme.edge;
  float width = selected ? 3.5f : 1 + 3 * static_cast<float>(use);
  if (painter.scale() < 0.25f) width = std::min(width, 1.5f);
  painter.line(wire.path, color, width);
}

Color fill_of(std::size_t d, const MachineLook& look) {
  const Theme& theme = look.theme;
  if (!look.tasks.empty()) return look.tasks[d].empty() ? theme.raised : blend(theme.raised, theme.accent, 0.45f);
  return look.load ? blend(theme.raised, theme.ramp(look.load->device_busy[d]), 0.45f) : theme.raised;
}

void paint_device(Painter& painter, const MachinePlaces& places, std::size_t d, const MachineLook& look) {
  const Theme& theme = look.theme;
  const Rect& box = places.devices[d];
  bool some = !look.tasks.empty(), has_task = some && !look.tasks[d].empty();
  double busy = look.load ? look.load->device_busy[d] : 0;
  Color fill = fill_of(d, look);
  painter.rect(box, fill, 3);
  bool selected = look.device == DeviceId(static_cast<std::int64_t>(d));
  if (selected || painter.scale() > 0.3f)
    painter.frame(box, selected ? theme.selected : has_task ? theme.accent : theme.node_border, selected ? 3 : 1, 3);
  if (look.load) {
    double memory = std::min(look.load->device_memory[d], 1.0);
    Rect bar{box.x + 5, box.bottom() - 8, box.w - 10, 4};
    painter.rect(bar, theme.border);
    painter.rect({bar.x, bar.y, bar.w * static_cast<float>(memory), bar.h},
                 look.load->device_memory[d] > 1 ? theme.error : theme.dim);
  }
  if (!painter.legible(11)) return;
  Color text = readable_on(fill);
  painter.text({box.center().x, box.y + 11}, places.device_names[d], {11, text, Face::strong, Align::center});
  std::string below = has_task ? look.tasks[d] : look.load ? fmt::format("{:.0f}% busy", 100 * busy) : std::string();
  if (!below.empty() && painter.legible(10))
    painter.text({box.center().x, box.y + 25}, elide(look.metrics, below, 10, Face::mono, box.w - 4),
                 {10, text, Face::mono, Align::center});
}

}  // namespace

namespace {

// Parts with their names, and their devices with their numbers: what can be read from far away.
void paint_far(Painter& painter, const MachinePlaces& places, const MachineLook& look) {
  const Theme& theme = look.theme;
  float pixel = 1 / painter.scale();
  for (const MachinePlaces::Wire& wire : places.wires)
    if (wire.depth == 0) paint_wire(painter, wire, look);
  for (const MachinePlaces::Part& part : places.parts) {
    if (part.level != 0 || !painter.shows(part.box)) continue;
    painter.rect(part.box, theme.group, 5);
    painter.frame(part.box, theme.border, 1, 5);
  }
  auto size_in = [&](const Rect& box, std::string_view text, Face face) {
    float size = std::min(11 * pixel, 0.8f * box.h);
    float wide = look.metrics.width(text, size, face);
    return wide > 0.94f * box.w ? size * 0.94f * box.w / wide : size;
  };
  for (const auto& [room, title] : places.far_titles) {
    float size = size_in(room, title, Face::strong);
    if (painter.legible(size)) painter.text({room.x, room.center().y}, title, {size, theme.text, Face::strong});
  }
  for (std::size_t d = 0; d < places.far_devices.size(); ++d) {
    const Rect& box = places.far_devices[d];
    if (!painter.shows(box)) continue;
    Color fill = fill_of(d, look);
    painter.rect(box, fill);
    bool selected = look.device == DeviceId(static_cast<std::int64_t>(d));
    if (selected) painter.frame(box, theme.selected, 2.5f);
    std::string number = std::to_string(d);
    float size = size_in(box, number, Face::mono);
    if (painter.legible(size)) painter.text(box.center(), number, {size, readable_on(fill), Face::mono, Align::center});
    if (look.topology) painter.name(box, "device " + look.topology->devices[d].name, look.topology->devices[d].name);
  }
  for (std::size_t v = 0; v < places.switches.size(); ++v) {
    const Rect& box = places.switches[v];
    bool inside = std::any_of(places.parts.begin(), places.parts.end(), [&](const MachinePlaces::Part& part) {
      return part.level == 0 && part.box.contains(box.center());
    });
    if (box.w <= 0 || inside) continue;
    painter.rect(box, blend(theme.raised, theme.category(4), 0.25f), 8);
    painter.frame(box, theme.node_border, 1, 8);
  }
}

}  // namespace

void paint_machine(Painter& painter, const MachinePlaces& places, const MachineLook& look) {
  if (is_far(places, painter.scale())) return paint_far(painter, places, look);
  const Theme& theme = look.theme;
  std::size_t deepest = 0;
  for (const MachinePlaces::Part& part : places.parts) deepest = std::max(deepest, part.level + 1);
  // Outside in: a link is drawn below the parts that are further inside, so that only their gaps show it.
  for (std::size_t depth = 0; depth <= deepest; ++depth) {
    for (const MachinePlaces::Part& part : places.parts) {
      if (part.level + 1 != depth || !painter.shows(part.box)) continue;
      // Links outside lie below, so this is no ground.
      painter.rect(part.box, blend(theme.group, theme.raised, depth % 2 == 0 ? 0.55f : 0.0f), 5);
      painter.frame(part.box, theme.border, 1, 5);
      float size = part.outer ? 30 : 12;
      if (painter.legible(size))
        painter.text({part.box.x + 8, part.box.y + size * 0.9f}, part.title,
                     {size, theme.dim, Face::strong, Align::left});
    }
    for (const MachinePlaces::Wire& wire : places.wires)
      if (wire.depth == depth) paint_wire(painter, wire, look);
  }
  for (std::size_t v = 0; v < places.switches.size(); ++v) {
    const Rect& box = places.switches[v];
    if (box.w <= 0 || !painter.shows(box)) continue;
    painter.rect(box, blend(theme.raised, theme.category(4), 0.25f), 8);
    painter.frame(box, theme.node_border, 1, 8);
    if (painter.legible(11))
      painter.text(box.center(), places.switch_names[v], {11, theme.text, Face::text, Align::center});
  }
  for (std::size_t d = 0; d < places.devices.size(); ++d) {
    if (!painter.shows(places.devices[d])) continue;
    paint_device(painter, places, d, look);
    if (look.topology)
      painter.name(places.devices[d], "device " + look.topology->devices[d].name, look.topology->devices[d].name);
  }
}

void paint_grid(Painter& painter, const GridPlaces& grid, const Topology& topology, const Theme& theme,
                DeviceId selected) {
  for (std::size_t i = 0; i < grid.cells.size(); ++i) {
    const Rect& cell = grid.cells[i];
    if (!painter.shows(cell)) continue;
    DeviceId device = grid.devices[i];
    Color fill = blend(theme.raised, theme.category(topology.part(0, device)), 0.5f);
    painter.rect(cell, fill, 2);
    if (device == selected) painter.frame(cell, theme.selected, 2.5f, 2);
    if (painter.legible(11))
      painter.text(cell.center(), std::to_string(device.value), {11, readable_on(fill), Face::mono, Align::center});
    painter.name(cell, fmt::format("cell {}", i), topology.device(device).name);
  }
  if (painter.legible(9))
    for (const auto& [at, text] : grid.labels)
      painter.text(at, text, {9, theme.dim, Face::mono, at.y < 10 ? Align::center : Align::right});
}

}  // namespace unity::gui
