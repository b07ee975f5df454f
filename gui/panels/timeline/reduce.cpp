#include <algorithm>
#include <cmath>

#include "gui/panels/timeline/timeline.h"

namespace unity::gui {
namespace {

constexpr double kSeen = 5;     // pixels; shorter spans share a bucket of that width
constexpr float kGapSeen = 70;  // pixels from which a gap says its cause
constexpr std::size_t kSamples = 8;

double pixel(const TimeWindow& window, std::int64_t time) {
  return static_cast<double>(time - window.from) / window.step;
}

// Appends, or lengthens the last one where nobody would see a difference.
void push(std::vector<TimelineBar>& bars, const TimelineBar& bar) {
  if (!bars.empty() && bar.span < 0) {
    TimelineBar& last = bars.back();
    if (last.span < 0 && last.kind == bar.kind && last.fill == bar.fill && last.critical == bar.critical &&
        bar.x0 <= last.x1 + 0.01f) {
      last.x1 = bar.x1;
      return;
    }
  }
  bars.push_back(bar);
}

// The first span that ends behind the window's left side.
std::size_t first_seen(const std::vector<TimelineSpan>& spans, std::int64_t from) {
  auto at = std::partition_point(spans.begin(), spans.end(), [&](const TimelineSpan& s) { return s.end <= from; });
  return static_cast<std::size_t>(at - spans.begin());
}

}  // namespace

std::vector<TimelineBar> reduce_spans(const TimelineRow& row, const TimeWindow& window, const std::vector<bool>* wanted,
                                      const TimelinePath* path, DeviceId device) {
  const std::vector<TimelineSpan>& spans = row.spans;
  std::vector<TimelineBar> bars;
  auto until = window.from + static_cast<std::int64_t>(std::ceil(window.step * window.pixels));
  auto counts = [&](const TimelineSpan& s) { return !wanted || (*wanted)[static_cast<std::size_t>(s.task)]; };
  for (std::size_t i = first_seen(spans, window.from); i < spans.size() && spans[i].start < until;) {
    const TimelineSpan& span = spans[i];
    double x0 = pixel(window, span.start), x1 = pixel(window, span.end);
    if (x1 - x0 >= kSeen) {
      if (counts(span))
        bars.push_back({static_cast<float>(x0), static_cast<float>(x1), span.kind, 4,
                        path && path->holds(span.task, device), static_cast<std::int32_t>(i)});
      ++i;
      continue;
    }
    double bucket = std::floor(x0 / kSeen) * kSeen;
    auto bucket_end = window.from + static_cast<std::int64_t>(std::ceil((bucket + kSeen) * window.step));
    auto behind = std::partition_point(spans.begin() + static_cast<std::ptrdiff_t>(i) + 1, spans.end(),
                                       [&](const TimelineSpan& s) { return s.start < bucket_end; });
    auto j = static_cast<std::size_t>(behind - spans.begin());
    // A long span that begins in the bucket stands for itself.
    if (j > i + 1 && pixel(window, spans[j - 1].end) - pixel(window, spans[j - 1].start) >= kSeen) --j;
    std::int64_t busy = 0, longest = -1;
    TimelineBar bar{static_cast<float>(std::max(bucket, pixel(window, 0))), static_cast<float>(bucket + kSeen),
                    span.kind};
    bool any = !wanted;
    std::size_t stride = wanted ? 1 : std::max<std::size_t>(1, (j - i) / kSamples);
    for (std::size_t k = i; k < j; k += stride) {
      if (!counts(spans[k])) continue;
      any = true;
      busy += spans[k].end - spans[k].start;
      if (spans[k].end - spans[k].start > longest) longest = spans[k].end - spans[k].start, bar.kind = spans[k].kind;
      bar.critical |= path && path->holds(spans[k].task, device);
    }
    if (!wanted) busy = row.busy[j] - row.busy[i];
    bar.fill = static_cast<std::uint8_t>(
        std::clamp(std::lround(4 * static_cast<double>(busy) / (kSeen * window.step)), 1l, 4l));
    if (any) push(bars, bar);
    i = j;
  }
  return bars;
}

std::vector<TimelineSteps> reduce_levels(const TimelineRow& row, const TimeWindow& window) {
  std::vector<TimelineSteps> steps;
  const auto& level = row.level;
  auto until = window.from + static_cast<std::int64_t>(std::ceil(window.step * window.pixels));
  auto at =
      std::partition_point(level.begin(), level.end(), [&](const TimelineLevel& l) { return l.time <= window.from; });
  auto i = static_cast<std::size_t>(at - level.begin());
  if (i > 0) --i;
  auto push_step = [&](const TimelineSteps& step) {
    if (!steps.empty() && steps.back().parts == step.parts)
      steps.back().x1 = step.x1;
    else if (step.x1 > step.x0)
      steps.push_back(step);
  };
  while (i < level.size() && level[i].time < until) {
    auto x_of = [&](std::size_t k) {
      return k < level.size() ? static_cast<float>(std::max(pixel(window, level[k].time), 0.0))
                              : static_cast<float>(window.pixels);
    };
    float x0 = x_of(i), bucket = std::floor(x0) + 1;
    if (x_of(i + 1) - x0 >= 1) {
      push_step({x0, x_of(i + 1), level[i].parts});
      ++i;
      continue;
    }
    // Several in a pixel: the fullest; the last one holds until the next.
    std::size_t fullest = i;
    for (; i < level.size() && x_of(i) < bucket; ++i)
      if (level[i].sum() > level[fullest].sum()) fullest = i;
    push_step({x0, bucket, level[fullest].parts});
    push_step({bucket, x_of(i), level[i - 1].parts});
  }
  return steps;
}

RowView reduce_row(const Timeline& timeline, std::size_t l, std::size_t r, const TimeWindow& window,
                   const std::vector<std::vector<bool>>& wanted, const std::vector<TimelinePath>& paths) {
  const TimelineLane& lane = timeline.lanes[l];
  const TimelineRow& row = lane.rows[r];
  RowView view;
  if (lane.kind != TimelineLane::Kind::stream) {
    view.steps = reduce_levels(row, window);
    return view;
  }
  const TimelinePath* path = row.source < paths.size() ? &paths[row.source] : nullptr;
  view.bars = reduce_spans(row, window, nullptr, path, row.device);
  if (row.source < wanted.size() && !wanted[row.source].empty())
    view.selected = reduce_spans(row, window, &wanted[row.source]);
  if (lane.stream != static_cast<int>(Stream::compute) || !timeline.sources[row.source].program) return view;
  for (std::size_t b = 0; b < view.bars.size(); ++b) {
    float before = b == 0 ? static_cast<float>(std::max(pixel(window, 0), 0.0)) : view.bars[b - 1].x1,
          x0 = view.bars[b].x0;
    if (x0 - before < kGapSeen) continue;
    // What follows may be many spans in one bar: the first of them waited.
    std::size_t next = first_seen(row.spans, window.from + static_cast<std::int64_t>(window.step * (before + kSeen)));
    if (next >= row.spans.size()) continue;
    view.gaps.push_back({before, x0, static_cast<std::int32_t>(next), gap_cause(timeline, l, r, next)});
  }
  return view;
}

std::vector<std::vector<bool>> tasks_of(const Timeline& timeline, const std::vector<NodeId>& nodes) {
  std::vector<std::vector<bool>> wanted(timeline.sources.size());
  if (nodes.empty()) return wanted;
  for (std::size_t s = 0; s < wanted.size(); ++s) {
    const TimelineSource& source = timeline.sources[s];
    if (source.node_of_task.empty()) continue;
    wanted[s].assign(std::max(source.node_of_task.size(), source.last_end.size()), false);
    for (std::size_t t = 0; t < source.node_of_task.size(); ++t)
      wanted[s][t] =
          source.node_of_task[t].valid() && std::binary_search(nodes.begin(), nodes.end(), source.node_of_task[t]);
  }
  return wanted;
}

}  // namespace unity::gui
