#include <array>
#include <cmath>

#include "gui/panels/pcg/view.h"

namespace unity::gui {
namespace {

constexpr float kRound = 5, kTitle = 14, kDetail = 11, kEdgeText = 10, kStripe = 5, kLine = 15;

void paint_edge(Painter& painter, const PcgEdge& edge, const PcgLook& look, bool near, bool faded) {
  const Theme& theme = look.theme;
  bool selected = std::find(edge.values.begin(), edge.values.end(), look.flags.value) != edge.values.end();
  Color color = selected ? theme.selected : near ? theme.accent : faded ? theme.edge.with_alpha(0.25f) : theme.edge;
  painter.line(edge.path, color, selected ? 2.5f : near ? 1.8f : 1);
  if (painter.scale() < 0.3f) return;
  Point tip = edge.path.back(), before = edge.path[edge.path.size() - 2];
  float dx = tip.x - before.x, dy = tip.y - before.y, length = std::max(std::sqrt(dx * dx + dy * dy), 0.01f);
  dx /= length, dy /= length;
  constexpr float kLong = 7, kWide = 3.2f;
  Point back{tip.x - dx * kLong, tip.y - dy * kLong};
  painter.triangle(tip, {back.x - dy * kWide, back.y + dx * kWide}, {back.x + dy * kWide, back.y - dx * kWide}, color);
}

void paint_edge_label(Painter& painter, const PcgEdge& edge, const PcgLook& look, bool faded) {
  float w = look.metrics.width(edge.label, kEdgeText, Face::mono) + 4;
  Rect box{edge.label_at.x - w / 2, edge.label_at.y - 7, w, 14};
  if (!painter.shows(box)) return;
  painter.rect(box, look.theme.canvas.with_alpha(0.85f));
  painter.text(edge.label_at, edge.label,
               {kEdgeText, faded ? look.theme.dim.with_alpha(0.4f) : look.theme.dim, Face::mono, Align::center});
}

void paint_item(Painter& painter, const PcgItem& item, std::size_t i, const BlockTree& tree, const PcgLook& look) {
  const Theme& theme = look.theme;
  const Rect& box = item.box;
  bool repeat = tree[item.block].kind == Block::Kind::repeat, group = tree[item.block].kind == Block::Kind::group;
  Color tint = theme.category(6);
  if (look.colors) {
    int category = look.colors->category[i];
    tint = category >= 0 ? theme.category(category) : theme.ramp(look.colors->amount[i]);
  }
  bool selected = i < look.flags.selected.size() && look.flags.selected[i],
       marked = i < look.flags.marked.size() && look.flags.marked[i];
  bool faded = i < look.flags.faded.size() && look.flags.faded[i];
  float strength = faded ? 0.25f : 1;
  if (i < look.flags.added.size() && look.flags.added[i]) tint = theme.good, marked = true;
  if (i < look.flags.changed.size() && look.flags.changed[i]) tint = theme.warning, marked = true;
  if (!painter.legible(kTitle)) {  // far away, only the colour counts
    painter.rect(box, faded ? blend(theme.canvas, tint, 0.25f) : blend(theme.canvas, tint, 0.8f), 0);
    if (selected || marked) painter.frame(box.grown(3), selected ? theme.selected : theme.accent, 2);
    return;
  }
  if (repeat || group)  // cards behind say that there is more inside
    for (float shift : repeat ? std::array<float, 2>{6, 3} : std::array<float, 2>{3, 3}) {
      Rect behind{box.x + shift, box.y + shift, box.w, box.h};
      painter.rect(behind, blend(theme.canvas, theme.group, strength), kRound);
      painter.frame(behind, blend(theme.canvas, theme.node_border, strength * 0.7f), 1, kRound);
    }
  painter.rect(box, blend(theme.canvas, tint, strength), kRound);
  painter.rect({box.x + kStripe, box.y, box.w - kStripe, box.h},
               blend(theme.canvas, blend(theme.node, tint, 0.13f), strength), kRound);
  Color border = selected                                    ? theme.selected
                 : marked                                    ? (look.flags.added.empty() ? theme.accent : tint)
                 : static_cast<int>(i) == look.flags.hovered ? theme.text
                                                             : blend(theme.canvas, theme.node_border, strength);
  painter.frame(box, border, selected || marked ? 2.5f : 1, kRound);
  Color text = blend(theme.canvas, theme.text, strength), dim = blend(theme.canvas, theme.dim, strength);
  if (repeat || group)
    painter.text({box.right() - 11, box.center().y}, "+", {15, theme.accent, Face::strong, Align::center});
  float y = box.y + 6 + kLine / 2, x = box.x + kStripe + (box.w - kStripe) / 2;
  painter.text({x, y}, item.title, {kTitle, text, Face::strong, Align::center});
  if (!painter.legible(kDetail)) return;
  if (!item.detail.empty()) painter.text({x, y += kLine}, item.detail, {kDetail, dim, Face::text, Align::center});
  if (!item.weights.empty()) painter.text({x, y += kLine}, item.weights, {kDetail, dim, Face::mono, Align::center});
}

}  // namespace

PcgFlags flag_items(const PcgView& view, const std::vector<NodeId>& selected, const std::vector<NodeId>& marked,
                    const std::vector<NodeId>* only) {
  PcgFlags flags;
  auto set = [&](std::vector<bool>& of, const std::vector<NodeId>& nodes) {
    of.assign(view.items.size(), false);
    for (NodeId id : nodes)
      if (id.index() < view.item_of_node.size() && view.item_of_node[id.index()] >= 0)
        of[static_cast<std::size_t>(view.item_of_node[id.index()])] = true;
  };
  set(flags.selected, selected);
  set(flags.marked, marked);
  if (only) {
    set(flags.faded, *only);
    flags.faded.flip();
  }
  return flags;
}

void paint_pcg(Painter& painter, const PcgView& view, const BlockTree& tree, const Pcg& pcg, const PcgLook& look) {
  const Theme& theme = look.theme;
  for (const PcgBox& box : view.boxes) {
    if (!painter.shows(box.box)) continue;
    painter.ground(box.box, theme.group);
    painter.frame(box.box, theme.border, 1);
    if (painter.legible(12))
      painter.text({box.box.x + 24, box.box.y + 12}, box.title, {12, theme.dim, Face::strong, Align::left});
    if (painter.legible(12))
      painter.text({box.box.x + 12, box.box.y + 12}, "-", {15, theme.accent, Face::strong, Align::center});
    painter.name({box.box.x, box.box.y, box.box.w, 24}, "box " + tree[box.block].key, box.title);
  }
  auto flag = [](const std::vector<bool>& of, int i) {
    return static_cast<std::size_t>(i) < of.size() && of[static_cast<std::size_t>(i)];
  };
  bool labels = painter.legible(kEdgeText);
  std::vector<const PcgEdge*> shown;
  Rect visible = painter.visible();
  for (const PcgEdge& edge : view.edges) {
    Rect box = {edge.path[0].x, edge.path[0].y, 1, 1};
    for (Point p : edge.path) box = unite(box, {p.x, p.y, 1, 1});
    if (!visible.meets(box.grown(80))) continue;
    bool near = flag(look.flags.selected, edge.from) || flag(look.flags.selected, edge.to) ||
                edge.from == look.flags.hovered || edge.to == look.flags.hovered;
    paint_edge(painter, edge, look, near, flag(look.flags.faded, edge.from) && flag(look.flags.faded, edge.to));
    if (labels) shown.push_back(&edge);
  }
  for (std::size_t i = 0; i < view.items.size(); ++i) {
    const PcgItem& item = view.items[i];
    if (!visible.meets(item.box.grown(8))) continue;
    paint_item(painter, item, i, tree, look);
    if (!painter.legible(kTitle)) continue;
    const Block& block = tree[item.block];
    const Node& node = pcg[block.nodes[0]];
    painter.name(item.box,
                 "node " + (block.kind == Block::Kind::op ? (node.name.empty() ? block.key : node.name) : block.key),
                 item.title);
  }
  for (const PcgEdge* edge : shown)
    paint_edge_label(painter, *edge, look, flag(look.flags.faded, edge->from) && flag(look.flags.faded, edge->to));
}

}  // namespace unity::gui
