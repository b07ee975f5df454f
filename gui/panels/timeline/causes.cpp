#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "gui/panels/timeline/timeline.h"

namespace unity::gui {
namespace {

constexpr std::size_t kMostArrows = 48;

std::int64_t last_end(const TimelineSource& source, TaskId task) {
  return task.index() < source.last_end.size() ? source.last_end[task.index()] : -1;
}

// The dependency of a task that ended last; invalid: it has none with a span.
TaskId last_dependency(const TimelineSource& source, TaskId task) {
  const Program& program = *source.program;
  TaskId last;
  for (TaskId d : program.dependencies_of(program.tasks[task.index()]))
    if (last_end(source, d) >= 0 && (!last.valid() || last_end(source, d) > last_end(source, last))) last = d;
  return last;
}

// Times of which at least one of two kinds of spans covers, both, and neither: by one walk over sorted ends.
struct Cover {
  std::int64_t compute = 0, communication = 0, both = 0, any = 0;
};
Cover cover(const std::vector<std::pair<std::int64_t, int>>& sorted) {  // (time, +1 or -1 compute, +2 or -2 otherwise)
  Cover c;
  int compute = 0, communication = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0) {
      std::int64_t length = sorted[i].first - sorted[i - 1].first;
      c.compute += compute > 0 ? length : 0;
      c.communication += communication > 0 ? length : 0;
      c.both += compute > 0 && communication > 0 ? length : 0;
      c.any += compute > 0 || communication > 0 ? length : 0;
    }
    int what = sorted[i].second;
    (std::abs(what) == 1 ? compute : communication) += what > 0 ? 1 : -1;
  }
  return c;
}

}  // namespace

RangeStatistics range_statistics(const Timeline& timeline, std::size_t source, std::int64_t from, std::int64_t to) {
  RangeStatistics result;
  std::array<RangeStatistics::Group, kSpanKinds> groups;
  auto count = [](RangeStatistics::Group& group, std::int64_t time) {
    group.least = {group.count == 0 ? time : std::min(group.least.count, time)};
    group.most = {std::max(group.most.count, time)};
    group.sum = {group.sum.count + time};
    ++group.count;
  };
  std::map<DeviceId, std::vector<std::pair<std::int64_t, int>>> events;
  for (const TimelineLane& lane : timeline.lanes) {
    if (lane.kind != TimelineLane::Kind::stream) continue;
    for (const TimelineRow& row : lane.rows) {
      if (row.source != source) continue;
      auto& of_device = events[lane.device];
      auto first = std::partition_point(row.spans.begin(), row.spans.end(),
                                        [&](const TimelineSpan& s) { return s.end <= from; });
      for (auto s = first; s != row.spans.end() && s->start < to; ++s) {
        std::int64_t begin = std::max(s->start, from), end = std::min(s->end, to);
        count(groups[static_cast<std::size_t>(s->kind)], end - begin);
        count(result.all, end - begin);
        int what = lane.stream == static_cast<int>(Stream::compute) ? 1 : 2;
        of_device.emplace_back(begin, what);
        of_device.emplace_back(end, -what);
      }
    }
  }
  Cover sum;
  for (auto& [device, list] : events) {
    std::sort(list.begin(), list.end());
    Cover c = cover(list);
    sum.compute += c.compute, sum.communication += c.communication, sum.both += c.both, sum.any += c.any;
  }
  double whole = static_cast<double>(std::max<std::int64_t>(to - from, 1)) *
                 static_cast<double>(std::max<std::size_t>(events.size(), 1));
  result.compute = static_cast<double>(sum.compute) / whole;
  result.communication = static_cast<double>(sum.communication) / whole;
  result.overlap = static_cast<double>(sum.both) / whole;
  result.idle = 1 - static_cast<double>(sum.any) / whole;
  for (std::size_t k = 0; k < kSpanKinds; ++k) {
    if (groups[k].count == 0) continue;
    groups[k].kind = static_cast<SpanKind>(k);
    groups[k].name = to_string(groups[k].kind);
    result.groups.push_back(groups[k]);
  }
  std::stable_sort(result.groups.begin(), result.groups.end(),
                   [](const auto& a, const auto& b) { return a.sum > b.sum; });
  result.all.name = "all";
  return result;
}

std::string gap_cause(const Timeline& timeline, std::size_t l, std::size_t r, std::size_t next) {
  const TimelineRow& row = timeline.lanes[l].rows[r];
  const TimelineSource& source = timeline.sources[row.source];
  if (!source.program) return "of an unknown program";
  TaskId task(row.spans[next].task);
  if (task.index() >= source.program->tasks.size()) return "of an unknown task";
  TaskId cause = last_dependency(source, task);
  std::int64_t idle_from = next == 0 ? 0 : row.spans[next - 1].end;
  // What ended before the gap began did not hold the task up.
  if (!cause.valid() || last_end(source, cause) <= idle_from) return "nothing to wait for: start-up of the task";
  std::string text = "waits for " + source.program->task_name(cause);
  if (source.first_start[cause.index()] > idle_from) {
    TaskId before = last_dependency(source, cause);
    if (before.valid() && last_end(source, before) > idle_from)
      text += ", which waits for " + source.program->task_name(before);
  }
  return text;
}

std::vector<TaskId> waiting_for(const Program& program, TaskId task, std::size_t most) {
  std::vector<TaskId> waiting;
  // Tasks stand in an order that respects dependencies.
  for (std::size_t t = task.index() + 1; t < program.tasks.size() && waiting.size() < most; ++t) {
    auto on = program.dependencies_of(program.tasks[t]);
    if (std::find(on.begin(), on.end(), task) != on.end()) waiting.emplace_back(static_cast<std::int64_t>(t));
  }
  return waiting;
}

SpanPlace find_span(const Timeline& timeline, std::size_t source, TaskId task, DeviceId device) {
  SpanPlace found;
  const auto& starts = timeline.sources[source].first_start;
  if (task.index() >= starts.size() || starts[task.index()] < 0) return found;
  for (std::size_t l = 0; l < timeline.lanes.size(); ++l) {
    const TimelineLane& lane = timeline.lanes[l];
    if (lane.kind != TimelineLane::Kind::stream || (found.valid() && lane.device != device)) continue;
    for (std::size_t r = 0; r < lane.rows.size(); ++r) {
      if (lane.rows[r].source != source) continue;
      const auto& spans = lane.rows[r].spans;
      auto at = std::partition_point(spans.begin(), spans.end(),
                                     [&](const TimelineSpan& s) { return s.start < starts[task.index()]; });
      auto last = timeline.sources[source].last_end[task.index()];
      for (; at != spans.end() && at->start <= last; ++at)
        if (at->task == task.value) {
          found = {static_cast<int>(l), r, static_cast<std::size_t>(at - spans.begin())};
          if (lane.device == device) return found;
          break;
        }
    }
  }
  return found;
}

std::vector<TimelineArrow> arrows_of(const Timeline& timeline, const SpanPlace& span) {
  std::vector<TimelineArrow> arrows;
  if (!span.valid()) return arrows;
  const TimelineLane& lane = timeline.lanes[static_cast<std::size_t>(span.lane)];
  const TimelineRow& row = lane.rows[span.row];
  const auto& program = timeline.sources[row.source].program;
  TaskId task(row.spans[span.span].task);
  if (!program || task.index() >= program->tasks.size()) return arrows;
  auto add = [&](TaskId other, bool from) {
    // A communication's partners lie on all its devices; the nearest is its own.
    SpanPlace at = find_span(timeline, row.source, other, lane.device);
    if (at.valid() && arrows.size() < kMostArrows)
      arrows.push_back(from ? TimelineArrow{at, span} : TimelineArrow{span, at});
  };
  for (TaskId d : program->dependencies_of(program->tasks[task.index()])) add(d, true);
  for (TaskId w : waiting_for(*program, task, kMostArrows)) add(w, false);
  return arrows;
}

}  // namespace unity::gui
