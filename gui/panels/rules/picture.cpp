#include <map>

#include "core/base/text.h"
#include "core/rewrite/rule_dot.h"
#include "gui/layout/layout.h"
#include "gui/panels/rules/rules.h"

namespace unity::gui {
namespace {

constexpr float kText = 12, kBetween = 76, kHead = 26, kPadding = 14, kMostText = 260;

// One side: its nodes, the variables it reads, and its results.
class Side {
 public:
  Side(const Rule& rule, const TextMetrics& metrics) : rule_(rule), metrics_(metrics) {}

  void draw(const std::vector<PatternValue>& outputs) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      int from = value(outputs[o]);
      int to = add(outputs.size() > 1 ? fmt::format("result {}", o + 1) : "result", RulePicture::Box::Kind::result);
      graph_.edges.push_back({from, to});
    }
  }

  // Adds it to the picture, its left upper corner at this place. What it takes.
  Rect place(RulePicture& picture, Point at, const std::string& program) {
    Layout layout = lay_out(graph_, program, 3);
    Point shift{at.x + kPadding - layout.bounds.x, at.y + kHead + kPadding - layout.bounds.y};
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      const LayoutGraph::Node& node = graph_.nodes[i];
      boxes_[i].box = {layout.nodes[i].x + shift.x - node.w / 2, layout.nodes[i].y + shift.y - node.h / 2, node.w,
                       node.h};
      picture.boxes.push_back(boxes_[i]);
    }
    for (auto path : layout.edges) {
      for (Point& p : path) p = {p.x + shift.x, p.y + shift.y};
      picture.edges.push_back(std::move(path));
    }
    return {at.x, at.y, std::max(layout.bounds.w, 60.0f) + 2 * kPadding, layout.bounds.h + kHead + 2 * kPadding};
  }

 private:
  int add(std::string text, RulePicture::Box::Kind kind) {
    text = elide(metrics_, text, kText, Face::mono, kMostText);
    graph_.nodes.push_back({metrics_.width(text, kText, Face::mono) + 20, 26});
    boxes_.push_back({{}, std::move(text), kind});
    return static_cast<int>(boxes_.size()) - 1;
  }

  int value(PatternValue v) {
    using Kind = RulePicture::Box::Kind;
    std::pair key(v.variable, v.variable >= 0 ? -1 : v.node);
    if (auto known = drawn_.find(key); known != drawn_.end()) return known->second;
    if (v.variable >= 0) return drawn_[key] = add(rule_.values[static_cast<std::size_t>(v.variable)], Kind::variable);
    const PatternNode& node = rule_.nodes[static_cast<std::size_t>(v.node)];
    bool layout = node.op->category() == OpCategory::parallelization;
    int id = drawn_[key] = add(in_words(rule_, node), layout ? Kind::layout : Kind::op);
    for (PatternValue in : node.inputs) {
      int from = value(in);
      graph_.edges.push_back({from, id});
    }
    return id;
  }

  const Rule& rule_;
  const TextMetrics& metrics_;
  LayoutGraph graph_;
  std::vector<RulePicture::Box> boxes_;
  std::map<std::pair<int, int>, int> drawn_;  // (variable, node)
};

}  // namespace

RulePicture picture_of(const Rule& rule, const TextMetrics& metrics, const std::string& program) {
  RulePicture picture;
  Side source(rule, metrics), target(rule, metrics);
  source.draw(rule.source_outputs);
  target.draw(rule.target_outputs);
  picture.source = source.place(picture, {0, 0}, program);
  picture.target = target.place(picture, {picture.source.right() + kBetween, 0}, program);
  picture.source.h = picture.target.h = std::max(picture.source.h, picture.target.h);
  picture.bounds = unite(picture.source, picture.target);
  return picture;
}

void paint_rule(Painter& painter, const RulePicture& picture, const Theme& theme) {
  using Kind = RulePicture::Box::Kind;
  for (const auto& [side, title] : {std::pair(picture.source, "source"), std::pair(picture.target, "target")}) {
    painter.ground(side, theme.group);
    painter.frame(side, theme.border, 1);
    painter.text({side.x + 10, side.y + 13}, title, {kText, theme.dim, Face::strong});
  }
  float middle = picture.source.y + picture.source.h / 2, x = picture.source.right();
  Point arrow[] = {{x + 16, middle}, {x + kBetween - 22, middle}};
  painter.line(arrow, theme.accent, 3);
  painter.triangle({x + kBetween - 14, middle}, {x + kBetween - 26, middle - 8}, {x + kBetween - 26, middle + 8},
                   theme.accent);
  for (const auto& path : picture.edges) {
    painter.line(path, theme.edge, 1.2f);
    Point tip = path.back();
    painter.triangle(tip, {tip.x - 3.5f, tip.y - 7}, {tip.x + 3.5f, tip.y - 7}, theme.edge);
  }
  for (const RulePicture::Box& box : picture.boxes) {
    Color tint = theme.category(box.kind == Kind::layout ? 1 : box.kind == Kind::variable ? 6 : 0);
    if (box.kind != Kind::result) {
      painter.rect(box.box, blend(theme.node, tint, 0.22f), box.kind == Kind::variable ? 12 : 4);
      painter.frame(box.box, tint, 1, box.kind == Kind::variable ? 12 : 4);
    }
    if (painter.legible(kText))
      painter.text(box.box.center(), box.text,
                   {kText, box.kind == Kind::result ? theme.dim : theme.text, Face::mono, Align::center});
  }
}

}  // namespace unity::gui
