// What stands beside the timeline: a gap, a span, statistics of a range, the critical path.
#include <algorithm>

#include "gui/panels/timeline/panel.h"

namespace unity::gui {

void TimelinePanel::draw_facts(Ui& ui, Session& session) {
  const Theme& theme = ui.theme();
  float width = kFacts - 20;
  auto fact = [&](const std::string& label, const std::string& value) {
    ui.fact(label, elide(tools_.metrics, value, 13, Face::mono, width - 118), 112);
  };
  if (!gap_text_.empty()) {
    ui.heading("Gap");
    ui.wrapped(gap_text_, theme.text);
  }
  if (selected_.valid()) {
    const TimelineLane& lane = shown_->lanes[static_cast<std::size_t>(selected_.lane)];
    const TimelineRow& row = lane.rows[selected_.row];
    const TimelineSpan& span = row.spans[selected_.span];
    ui.text(elide(tools_.metrics, shown_->task_name(row.source, span.task), 15, Face::strong, width), theme.text,
            Face::strong, 15);
    fact("time", to_string(Picoseconds{span.end - span.start}));
    for (std::size_t s = 0; s < shown_->sources.size(); ++s) {
      SpanPlace other = s == row.source || shown_->sources[s].program != shown_->sources[row.source].program
                            ? SpanPlace()
                            : find_span(*shown_, s, TaskId(span.task), lane.device);
      if (!other.valid()) continue;
      const TimelineSpan& of = shown_->lanes[static_cast<std::size_t>(other.lane)].rows[other.row].spans[other.span];
      fact(shown_->sources[s].title, to_string(Picoseconds{of.end - of.start}));
    }
    fact("from", to_string(Picoseconds{span.start}));
    fact("on", lane.title);
    if (selected_.span > 0 || span.start > 0) {
      std::int64_t idle = span.start - (selected_.span == 0 ? 0 : row.spans[selected_.span - 1].end);
      if (idle > 0) fact("idle before", to_string(Picoseconds{idle}));
      if (idle > 0 && shown_->sources[row.source].program)
        ui.wrapped(gap_cause(*shown_, static_cast<std::size_t>(selected_.lane), selected_.row, selected_.span),
                   theme.dim);
    }
    ui.gap();
  }
  bool whole = range_to_ <= range_from_;
  std::int64_t from = whole ? 0 : range_from_, to = whole ? 0 : range_to_;  // 0: its iteration
  range_.get(session, "statistics", {shown_, from, to}, [](const RangeKey& of, JobState&) {
    std::vector<RangeStatistics> all;
    for (std::size_t s = 0; s < of.timeline->sources.size(); ++s)
      all.push_back(
          range_statistics(*of.timeline, s, of.from,
                           of.to > of.from ? of.to : std::max<std::int64_t>(of.timeline->sources[s].iteration, 1)));
    return all;
  });
  if (!range_.data()) return;
  for (std::size_t s = 0; s < std::min(range_.data()->size(), shown_->sources.size()); ++s) {
    const RangeStatistics& r = (*range_.data())[s];
    std::string title =
        whole ? shown_->sources[s].title
              : fmt::format("{}, range of {}", shown_->sources[s].title, to_string(Picoseconds{to - from}));
    ui.text(elide(tools_.metrics, title, 15, Face::strong, width), theme.text, Face::strong, 15);
    if (!shown_->sources[s].program)
      ui.wrapped("A trace of a program that is not open, or of another one: its tasks have numbers only.", theme.dim);
    if (whole) fact("iteration", to_string(Picoseconds{shown_->sources[s].iteration}));
    fact("computes", fmt::format("{:.1f}%", 100 * r.compute));
    fact("communicates", fmt::format("{:.1f}%, {:.1f}% hidden", 100 * r.communication, 100 * r.overlap));
    fact("idle", fmt::format("{:.1f}%", 100 * r.idle));
    ui.text(fmt::format("{:<13} {:>6}  min / mean / max", "", "count"), theme.dim, Face::mono, 11);
    for (const RangeStatistics::Group& g : r.groups)
      ui.text(fmt::format("{:<13} {:>6}  {} / {} / {}", g.name, g.count, to_string(g.least), to_string(g.mean()),
                          to_string(g.most)),
              theme.text, Face::mono, 11);
    ui.gap();
  }
  if (options_.critical && paths_.data() && paths_.current())
    for (std::size_t p = 0; p < std::min(paths_.data()->size(), shown_->sources.size()); ++p) {
      const TimelinePath& path = (*paths_.data())[p];
      if (path.steps.empty() || !shown_->sources[p].program) continue;
      Picoseconds communicates, waits;
      for (const CriticalStep& step : path.steps) {
        waits.count += step.wait.count;
        if (shown_->sources[p].program->tasks[step.task.index()].kind == TaskKind::communicate)
          communicates.count += step.time.count - step.wait.count;
      }
      ui.text("Critical path, " + elide(tools_.metrics, shown_->sources[p].title, 15, Face::strong, width - 110),
              theme.text, Face::strong, 15);
      fact("tasks", fmt::format("{}", path.steps.size()));
      fact("communicates", to_string(communicates));
      fact("waits", to_string(waits));
      ui.gap();
    }
  if (whole)
    ui.wrapped("Drag along the ruler, or with Shift, for a range. Wheel zooms, Shift+wheel scrolls.", theme.dim);
}

}  // namespace unity::gui
