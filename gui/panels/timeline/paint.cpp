#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/base/text.h"
#include "gui/panels/timeline/timeline.h"

namespace unity::gui {
namespace {

constexpr float kLabel = 11, kLeastLabel = 52;

// Times of a window that may be another than that of what was reduced.
struct Mapping {
  const TimelineLook& look;
  double factor, shift;
  Mapping(const TimelineLook& l, const TimeWindow& of)
      : look(l),
        factor(of.step / l.now.step),
        shift(static_cast<double>(of.from - l.now.from) / l.now.step + l.area.x + kGutter) {}
  float x(float pixel) const { return static_cast<float>(static_cast<double>(pixel) * factor + shift); }
};

float left(const TimelineLook& look) { return look.area.x + kGutter; }
float x_of(const TimelineLook& look, std::int64_t time) {
  return left(look) + static_cast<float>(static_cast<double>(time - look.now.from) / look.now.step);
}

// The part between the gutter and the right end, below the ruler.
Rect lanes_area(const TimelineLook& look) {
  return {left(look), look.area.y + kRuler, look.area.w - kGutter, look.area.h - kRuler};
}

void paint_bars(Painter& painter, const Timeline& timeline, const TimelineRow& row, const RowView& view,
                const TimelineView& of, const TimelineLook& look, const Rect& place, bool texts) {
  const Theme& theme = look.theme;
  Rect lanes = lanes_area(look);
  Mapping map(look, of.window);
  bool fade = !view.selected.empty();
  auto clipped = [&](const TimelineBar& bar) {
    float x0 = std::max(map.x(bar.x0), lanes.x), x1 = std::min(map.x(bar.x1), lanes.right());
    // A hairline between neighbours where there is room for it.
    if (x1 - x0 > 4) x1 -= 1;
    return Rect{x0, place.y, x1 - x0, place.h};
  };
  for (const TimelineBar& bar : view.bars) {
    Rect box = clipped(bar);
    if (box.w <= 0) continue;
    Color fill =
        blend(theme.canvas, span_color(theme, bar.kind), (fade ? 0.35f : 1.0f) * static_cast<float>(bar.fill) / 4);
    painter.rect(box, fill);
    if (bar.critical) painter.rect({box.x, box.bottom() - 3, box.w, 3}, theme.text);
  }
  for (const TimelineBar& bar : view.selected) {
    Rect box = clipped(bar);
    box.w = std::max(box.w, 1.5f);
    if (box.x >= lanes.right() || map.x(bar.x1) < lanes.x) continue;
    painter.rect(box, span_color(theme, bar.kind));
    painter.rect({box.x, box.y, box.w, 3}, theme.selected);
  }
  if (!texts) return;
  for (const TimelineBar& bar : view.bars) {
    if (bar.span < 0) continue;
    Rect box = clipped(bar);
    if (box.w < kLeastLabel) continue;
    const TimelineSpan& span = row.spans[static_cast<std::size_t>(bar.span)];
    std::string name = timeline.task_name(row.source, span.task);
    bool chosen = std::binary_search(view.selected.begin(), view.selected.end(), bar,
                                     [](const TimelineBar& a, const TimelineBar& b) { return a.x0 < b.x0; });
    Color fill = blend(theme.canvas, span_color(theme, bar.kind), fade && !chosen ? 0.35f : 1.0f);
    painter.text({box.x + 4, box.center().y}, elide(look.metrics, name, kLabel, Face::text, box.w - 8),
                 {kLabel, readable_on(fill)});
    painter.name(box, "span " + name, name);
  }
  for (const TimelineGap& gap : view.gaps) {
    float x0 = std::max(map.x(gap.x0), lanes.x) + 4, x1 = std::min(map.x(gap.x1), lanes.right()) - 4;
    if (x1 - x0 < 60) continue;
    painter.text({(x0 + x1) / 2, place.center().y}, elide(look.metrics, gap.cause, kLabel, Face::text, x1 - x0),
                 {kLabel, theme.dim, Face::text, Align::center});
  }
}

void paint_steps(Painter& painter, const TimelineLane& lane, const RowView& view, const TimelineView& of,
                 const TimelineLook& look, const Rect& place) {
  // Of memory: weights, gradients, optimizer states, activations, inputs. Of links: how busy.
  static constexpr std::array<int, TimelineLevel::kParts> kColors = {0, 2, 5, 4, 6};
  Rect lanes = lanes_area(look);
  Mapping map(look, of.window);
  for (const TimelineSteps& step : view.steps) {
    float x0 = std::max(map.x(step.x0), lanes.x), x1 = std::min(map.x(step.x1), lanes.right());
    if (x1 <= x0) continue;
    if (lane.kind == TimelineLane::Kind::link) {
      float h = place.h * std::min(step.parts[0], 1.0f);
      if (h > 0)
        painter.rect({x0, place.bottom() - h, x1 - x0, h},
                     look.theme.ramp(0.25 + 0.6 * static_cast<double>(step.parts[0])));
      continue;
    }
    float bottom = place.bottom();
    for (std::size_t p = 0; p < step.parts.size(); ++p) {
      float h = place.h * step.parts[p] / lane.most;
      if (h > 0.2f) painter.rect({x0, bottom - h, x1 - x0, h}, look.theme.category(kColors[p]));
      bottom -= h;
    }
  }
}

void paint_ruler(Painter& painter, const TimelineLook& look) {
  const Theme& theme = look.theme;
  Rect lanes = lanes_area(look);
  auto length = static_cast<std::int64_t>(look.now.step * static_cast<double>(lanes.w));
  std::int64_t tick = tick_length(std::max<std::int64_t>(length, 1), std::max(2, static_cast<int>(lanes.w / 110)));
  for (std::int64_t t = (std::max<std::int64_t>(look.now.from, 0) + tick - 1) / tick * tick;
       t <= look.now.from + length; t += tick) {
    float x = x_of(look, t);
    painter.rect({x, lanes.y, 1, lanes.h}, theme.grid);
    if (x + 60 < lanes.right())
      painter.text({x + 3, look.area.y + kRuler / 2}, to_string(Picoseconds{t}), {kLabel, theme.dim, Face::mono});
  }
}

// From the end of each span of a critical path to the beginning of the next one, where that is on another lane.
void paint_paths(Painter& painter, const std::vector<TimelinePath>& paths, const TimelineLook& look, float top) {
  constexpr float kApart = 3;  // pixels: what is closer is one line
  constexpr std::size_t kMostLines = 600;
  Rect lanes = lanes_area(look);
  std::map<std::pair<int, std::size_t>, float> middle;  // of rows that are shown
  for (const RowPlace& place : *look.places) {
    float y = top + place.y + place.h / 2;
    if (y > lanes.y + 2 && y < lanes.bottom() - 2) middle[{static_cast<int>(place.lane), place.row}] = y;
  }
  std::int64_t to = look.now.from + static_cast<std::int64_t>(look.now.step * static_cast<double>(lanes.w));
  for (const TimelinePath& path : paths) {
    auto at = std::partition_point(path.spans.begin(), path.spans.end(),
                                   [&](const SpanAt& s) { return s.end < look.now.from; });
    float last = -1e9f;
    std::size_t lines = 0;
    for (; at != path.spans.end() && at + 1 != path.spans.end() && at->end <= to && lines < kMostLines; ++at) {
      const SpanAt &a = *at, &b = *(at + 1);
      if (a.lane == b.lane && a.row == b.row) continue;
      auto from = middle.find({a.lane, a.row}), next = middle.find({b.lane, b.row});
      if (from == middle.end() || next == middle.end()) continue;
      Point p{x_of(look, a.end), from->second}, q{x_of(look, b.start), next->second};
      if (p.x - last < kApart || q.x > lanes.right() || p.x < lanes.x) continue;
      last = p.x;
      ++lines;
      painter.segment(p, q, look.theme.text, 1.5f);
      painter.circle(q, 2.5f, look.theme.text);
    }
  }
}

}  // namespace

Color span_color(const Theme& theme, SpanKind kind) {
  static constexpr std::array<int, kSpanKinds> kColors = {0, 4, 2, 1, 3, 6};
  return theme.category(kColors[static_cast<std::size_t>(kind)]);
}

std::int64_t tick_length(std::int64_t time, int most) {
  std::int64_t tick = 1;
  for (int i = 0; time / tick > most; ++i) tick = i % 3 == 1 ? tick / 2 * 5 : tick * 2;
  return tick;
}

void paint_timeline(Painter& painter, const Timeline& timeline, const TimelineView& view, const TimelineLook& look) {
  const Theme& theme = look.theme;
  Rect lanes = lanes_area(look);
  paint_ruler(painter, look);
  float top = lanes.y - look.scroll;
  if (look.range_to > look.range_from) {
    float x0 = std::clamp(x_of(look, look.range_from), lanes.x, lanes.right());
    float x1 = std::clamp(x_of(look, look.range_to), lanes.x, lanes.right());
    painter.rect({x0, look.area.y, x1 - x0, look.area.h}, theme.accent.with_alpha(0.13f));
  }
  std::size_t last_lane = timeline.lanes.size();
  for (std::size_t i = 0; i < look.places->size(); ++i) {
    const RowPlace& place = (*look.places)[i];
    float y0 = std::max(top + place.y, lanes.y), y1 = std::min(top + place.y + place.h, lanes.bottom());
    if (y1 <= y0) continue;
    bool whole = y1 - y0 > place.h - 0.5f;
    const TimelineLane& lane = timeline.lanes[place.lane];
    const TimelineRow& row = lane.rows[place.row];
    Rect box{lanes.x, y0, lanes.w, y1 - y0};
    bool chosen = (look.device.valid() && lane.device == look.device) || (look.link.valid() && lane.link == look.link);
    if (whole) {
      std::string title = last_lane == place.lane ? std::string() : lane.title;
      if (row.source > 0 && last_lane == place.lane) title = "  " + timeline.sources[row.source].title;
      Color color = row.source > 0 ? theme.dim : chosen ? theme.selected : theme.text;
      painter.text({look.area.x + 6, box.center().y},
                   elide(look.metrics, title, kLabel, chosen ? Face::strong : Face::text, kGutter - 12),
                   {kLabel, color, chosen ? Face::strong : Face::text});
      if (row.source == 0 || last_lane != place.lane)
        painter.name({look.area.x, y0, kGutter - 4, y1 - y0}, "lane " + lane.title, lane.title);
    }
    last_lane = place.lane;
    if (i < view.first || i >= view.first + view.rows.size()) continue;
    const RowView& reduced = view.rows[i - view.first];
    if (lane.kind == TimelineLane::Kind::stream)
      paint_bars(painter, timeline, row, reduced, view, look, box, whole);
    else if (whole)
      paint_steps(painter, lane, reduced, view, look, box);
  }
  auto corner = [&](const SpanPlace& at, bool end) -> std::optional<Point> {
    for (const RowPlace& place : *look.places) {
      if (place.lane != static_cast<std::size_t>(at.lane) || place.row != at.row) continue;
      const TimelineSpan& span = timeline.lanes[place.lane].rows[at.row].spans[at.span];
      return Point{x_of(look, end ? span.end : span.start), top + place.y + place.h / 2};
    }
    return std::nullopt;
  };
  auto inside = [&](Point p) {
    return p.x >= lanes.x && p.x <= lanes.right() && p.y >= lanes.y && p.y <= lanes.bottom();
  };
  if (look.paths) paint_paths(painter, *look.paths, look, top);
  for (const TimelineArrow& arrow : look.arrows) {
    std::optional<Point> a = corner(arrow.from, true), b = corner(arrow.to, false);
    if (!a || !b || !inside(*a) || !inside(*b)) continue;
    painter.segment(*a, *b, theme.selected, 1.5f);
    painter.triangle(*b, {b->x - 6, b->y - 3}, {b->x - 6, b->y + 3}, theme.selected);
  }
  if (look.selected.valid()) {
    std::optional<Point> a = corner(look.selected, false), b = corner(look.selected, true);
    if (a && b && a->y - 8 > lanes.y && a->y + 8 < lanes.bottom() && b->x > lanes.x && a->x < lanes.right()) {
      float x0 = std::max(a->x, lanes.x), x1 = std::min(std::max(b->x, a->x + 2), lanes.right());
      painter.frame({x0 - 1, a->y - 9, x1 - x0 + 2, 18}, theme.selected, 2);
    }
  }
}

}  // namespace unity::gui
