// What mouse and keyboard do in the timeline.
#include <algorithm>
#include <cmath>

#include "gui/panels/timeline/panel.h"

namespace unity::gui {
namespace {

constexpr float kWheel = 1.25f;

// Lanes of a plan that is compared may be of devices and links that the machine in front has not.
Selection selection_of(const TimelineLane& lane, const Topology* topology) {
  if (lane.link.valid() && (!topology || lane.link.index() < topology->links.size())) return Selection::of(lane.link);
  if (lane.device.valid() && (!topology || lane.device.index() < topology->device_count()))
    return Selection::of(lane.device);
  return {};
}

}  // namespace

std::optional<std::size_t> TimelinePanel::row_at(Point at) const {
  float y = at.y - kRuler + scroll_;
  if (at.y < kRuler) return std::nullopt;
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (y >= places_[i].y && y < places_[i].y + places_[i].h) return i;
  return std::nullopt;
}

SpanPlace TimelinePanel::span_at(Point at) const {
  std::optional<std::size_t> i = row_at(at);
  if (!i || at.x < kGutter) return {};
  const RowPlace& place = places_[*i];
  const auto& spans = shown_->lanes[place.lane].rows[place.row].spans;
  std::int64_t time = time_at(at.x), reach = static_cast<std::int64_t>(2 * now_.step);
  auto next =
      std::partition_point(spans.begin(), spans.end(), [&](const TimelineSpan& s) { return s.end + reach < time; });
  if (next == spans.end() || next->start - reach > time) return {};
  // Of those under the pixel, the longest.
  auto best = next;
  for (auto s = next; s != spans.end() && s->start - reach <= time; ++s)
    if (s->end - s->start > best->end - best->start) best = s;
  return {static_cast<int>(place.lane), place.row, static_cast<std::size_t>(best - spans.begin())};
}

void TimelinePanel::click(Session& session, Point at) {
  std::optional<std::size_t> i = row_at(at);
  gap_text_.clear();
  if (!i) return;
  const RowPlace& place = places_[*i];
  const TimelineLane& lane = shown_->lanes[place.lane];
  if (at.x < kGutter || lane.kind != TimelineLane::Kind::stream) {
    return session.select(selection_of(lane, session.document()->topology.get()));
  }
  SpanPlace span = span_at(at);
  const TimelineRow& row = lane.rows[place.row];
  if (!span.valid()) {
    auto next = std::partition_point(row.spans.begin(), row.spans.end(),
                                     [&](const TimelineSpan& s) { return s.start < time_at(at.x); });
    session.select({});
    if (next != row.spans.end()) {
      auto n = static_cast<std::size_t>(next - row.spans.begin());
      std::int64_t idle = next->start - (n == 0 ? 0 : row.spans[n - 1].end);
      gap_text_ =
          fmt::format("{} idle: {}", to_string(Picoseconds{idle}), gap_cause(*shown_, place.lane, place.row, n));
    }
    return;
  }
  std::int32_t task = row.spans[span.span].task;
  Selection selection;
  // Of an older graph, nodes have other numbers.
  if (NodeId node = shown_->node(row.source, task); node.valid() && timeline_.current())
    selection = Selection::of(node);
  else
    selection.kind = Selection::Kind::task;
  selection.task = TaskId(task);
  selected_ = span;
  arrows_ = arrows_of(*shown_, span);
  seen_ = selection;
  device_ = {}, link_ = {};
  session.select(selection);
}

void TimelinePanel::handle(Ui& ui, Session& session, const Rect& area, bool hovered, bool held) {
  const ImGuiIO& io = ImGui::GetIO();
  float unit = ui.fonts().scale();
  Point mouse{(io.MousePos.x - area.x) / unit, (io.MousePos.y - area.y) / unit};
  if (hovered && io.MouseWheel != 0) {
    if (io.KeyShift || mouse.x < kGutter)
      scroll_ -= io.MouseWheel * 54;
    else
      zoom(std::pow(kWheel, -io.MouseWheel), mouse.x - kGutter);
  }
  if (held && drag_ == Drag::none) {
    drag_ = io.KeyShift || mouse.y < kRuler ? Drag::range : Drag::pan;
    moved_ = false;
  }
  if (held && ImGui::IsMouseDragging(0, 4)) {
    if (drag_ == Drag::range) {
      Point from{(io.MouseClickedPos[0].x - area.x) / unit, 0};
      range_from_ = std::min(time_at(from.x), time_at(mouse.x));
      range_to_ = std::max(time_at(from.x), time_at(mouse.x));
    } else {
      now_.from -= static_cast<std::int64_t>(static_cast<double>(io.MouseDelta.x / unit) * now_.step);
      scroll_ -= io.MouseDelta.y / unit;
    }
    moved_ = true;
  }
  if (!held && drag_ != Drag::none) {
    if (!moved_ && hovered && drag_ == Drag::pan) click(session, mouse);
    if (!moved_ && drag_ == Drag::range) range_from_ = range_to_ = -1;
    drag_ = Drag::none;
  }
  if (hovered && ImGui::IsMouseDoubleClicked(0) && span_at(mouse).valid()) {
    click(session, mouse);
    std::swap(range_from_, range_to_);
    zoom_to_selection(session);
    std::swap(range_from_, range_to_);
  }
  if (!hovered || held) return;
  SpanPlace over = span_at(mouse);
  std::optional<std::size_t> i = row_at(mouse);
  if (over.valid()) {
    const TimelineRow& row = shown_->lanes[static_cast<std::size_t>(over.lane)].rows[over.row];
    const TimelineSpan& span = row.spans[over.span];
    ui.tooltip(fmt::format("{}\n{} {}, from {}\n{}", shown_->task_name(row.source, span.task), to_string(span.kind),
                           to_string(Picoseconds{span.end - span.start}), to_string(Picoseconds{span.start}),
                           shown_->sources[row.source].title));
  } else if (i && mouse.x >= kGutter) {
    const RowPlace& place = places_[*i];
    const TimelineLane& lane = shown_->lanes[place.lane];
    const auto& level = lane.rows[place.row].level;
    auto after = std::partition_point(level.begin(), level.end(),
                                      [&](const TimelineLevel& l) { return l.time <= time_at(mouse.x); });
    if (after == level.begin()) return;
    const TimelineLevel& now = *std::prev(after);
    if (lane.kind == TimelineLane::Kind::link)
      return ui.tooltip(fmt::format("{}\n{:.1f}% used", lane.title, 100 * now.parts[0]));
    std::string tip = lane.title;
    for (std::size_t p = 0; p < TimelineLevel::kParts; ++p)
      if (now.parts[p] > 0)
        tip += fmt::format("\n{}: {}", to_string(static_cast<BufferCategory>(p)),
                           to_string(Bytes{static_cast<std::int64_t>(now.parts[p])}));
    ui.tooltip(tip);
  }
}

}  // namespace unity::gui
