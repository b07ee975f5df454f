#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "core/base/text.h"
#include "gui/panels/timeline/timeline.h"

namespace unity::gui {
namespace {

using Kind = TimelineLane::Kind;

SpanKind kind_of(const Program* program, const Span& span) {
  if (program && span.task.index() < program->tasks.size()) {
    const Task& task = program->tasks[span.task.index()];
    if (task.kind == TaskKind::communicate) return SpanKind::communication;
    if (task.kind == TaskKind::copy || task.kind == TaskKind::accumulate || task.kind == TaskKind::zero)
      return SpanKind::copy;
    return task.phase == Phase::forward    ? SpanKind::forward
           : task.phase == Phase::backward ? SpanKind::backward
                                           : SpanKind::update;
  }
  auto stream = static_cast<Stream>(span.stream);
  return stream == Stream::communication ? SpanKind::communication
         : stream == Stream::copy        ? SpanKind::copy
                                         : SpanKind::unknown;
}

// Lanes by what they show, which is the order in which they are drawn.
class Lanes {
 public:
  explicit Lanes(const Topology* topology) : topology_(topology) {}

  TimelineRow& row(Kind kind, std::int64_t id, int stream, std::size_t source) {
    auto& rows = lanes_[{kind == Kind::link, id, kind == Kind::memory, stream}];
    if (rows.empty() || rows.back().source != source) {
      rows.emplace_back();
      rows.back().source = source;
    }
    return rows.back();
  }
  std::string& link_name(std::int64_t id) { return link_names_[id]; }

  std::vector<TimelineLane> take() {
    std::vector<TimelineLane> lanes;
    for (auto& [key, rows] : lanes_) {
      auto [is_link, id, is_memory, stream] = key;
      TimelineLane lane;
      lane.kind = is_link ? Kind::link : is_memory ? Kind::memory : Kind::stream;
      lane.stream = stream;
      if (is_link) {
        lane.link = LinkId(id);
        lane.title = link_names_[id];
      } else {
        lane.device = DeviceId(id);
        bool known = topology_ && lane.device.index() < topology_->device_count();
        lane.title = (known ? topology_->device(lane.device).name : fmt::format("device {}", id)) + " " +
                     (is_memory ? std::string("memory") : std::string(to_string(static_cast<Stream>(stream))));
      }
      lane.rows = std::move(rows);
      if (is_memory)
        for (const TimelineRow& row : lane.rows)
          for (const TimelineLevel& level : row.level) lane.most = std::max(lane.most, level.sum());
      lanes.push_back(std::move(lane));
    }
    return lanes;
  }

 private:
  const Topology* topology_;
  std::map<std::tuple<bool, std::int64_t, bool, int>, std::vector<TimelineRow>> lanes_;
  std::map<std::int64_t, std::string> link_names_;
};

void add_levels(Lanes& lanes, const Trace& trace, std::size_t s) {
  auto extend = [](TimelineRow& row, std::int64_t time) -> TimelineLevel& {
    if (row.level.empty() || row.level.back().time != time) {
      row.level.push_back(row.level.empty() ? TimelineLevel() : row.level.back());
      row.level.back().time = time;
    }
    return row.level.back();
  };
  for (const MemorySample& sample : trace.memory) {
    std::size_t part = sample.category < TimelineLevel::kParts ? sample.category : 3;
    extend(lanes.row(Kind::memory, sample.device.value, 0, s), sample.time.count).parts[part] =
        static_cast<float>(sample.used.count);
  }
  for (const LinkUsage& usage : trace.links) lanes.link_name(usage.link.value) = usage.name;
  for (const LinkSample& sample : trace.link_use)
    extend(lanes.row(Kind::link, sample.link.value, 0, s), sample.time.count).parts[0] =
        static_cast<float>(sample.fraction());
}

}  // namespace

const char* to_string(SpanKind kind) {
  static constexpr const char* kNames[kSpanKinds] = {"forward", "backward", "update", "communication", "copy", "task"};
  return kNames[static_cast<std::size_t>(kind)];
}

float TimelineLevel::sum() const { return std::accumulate(parts.begin(), parts.end(), 0.0f); }

std::string Timeline::task_name(std::size_t source, std::int32_t task) const {
  const auto& program = sources[source].program;
  return program ? program->task_name(TaskId(task)) : fmt::format("task {}", task);
}

NodeId Timeline::node(std::size_t source, std::int32_t task) const {
  const auto& nodes = sources[source].node_of_task;
  return static_cast<std::size_t>(task) < nodes.size() ? nodes[static_cast<std::size_t>(task)] : NodeId();
}

Timeline make_timeline(const std::vector<TimelineInput>& inputs, const Pcg* graph, const Topology* topology) {
  Timeline timeline;
  Lanes lanes(topology);
  for (std::size_t s = 0; s < inputs.size(); ++s) {
    const Trace& trace = *inputs[s].trace;
    TimelineSource source{inputs[s].title, inputs[s].program, {}, trace.iteration.count, {}, {}};
    if (source.program && graph) source.node_of_task = nodes_of_tasks(*graph, *source.program);
    for (const Span& span : trace.spans) {
      lanes.row(Kind::stream, span.device.value, span.stream, s)
          .spans.push_back({span.start.count, span.end.count, static_cast<std::int32_t>(span.task.value),
                            kind_of(source.program.get(), span)});
      if (source.last_end.size() <= span.task.index()) {
        source.last_end.resize(span.task.index() + 1, -1);
        source.first_start.resize(span.task.index() + 1, -1);
      }
      std::int64_t& first = source.first_start[span.task.index()];
      first = first < 0 ? span.start.count : std::min(first, span.start.count);
      std::int64_t& last = source.last_end[span.task.index()];
      last = std::max(last, span.end.count);
      timeline.end = std::max(timeline.end, span.end.count);
    }
    timeline.spans += trace.spans.size();
    add_levels(lanes, trace, s);
    timeline.sources.push_back(std::move(source));
  }
  timeline.lanes = lanes.take();
  for (TimelineLane& lane : timeline.lanes)
    for (TimelineRow& row : lane.rows) {
      row.busy.reserve(row.spans.size() + 1);
      std::int64_t busy = 0;
      for (const TimelineSpan& span : row.spans) {
        row.busy.push_back(busy);
        busy += span.end - span.start;
      }
      row.busy.push_back(busy);
    }
  return timeline;
}

bool TimelinePath::holds(std::int32_t task, DeviceId on_device) const {
  auto i = static_cast<std::size_t>(task);
  return i < on.size() && on[i] && (!on_device.valid() || device[i] == on_device);
}

TimelinePath timeline_path(const Trace& trace, const Program& program) {
  TimelinePath path;
  path.steps = critical_path(trace, [&](TaskId id) { return program.dependencies_of(program.tasks[id.index()]); });
  path.on.assign(program.tasks.size(), false);
  path.device.assign(program.tasks.size(), {});
  for (const CriticalStep& step : path.steps) {
    path.on[step.task.index()] = true;
    path.device[step.task.index()] = step.device;
  }
  return path;
}

void place_path(TimelinePath& path, const Timeline& timeline, std::size_t source) {
  std::map<DeviceId, std::vector<std::pair<int, std::size_t>>> rows;  // streams by device
  for (std::size_t l = 0; l < timeline.lanes.size(); ++l)
    for (std::size_t r = 0; r < timeline.lanes[l].rows.size(); ++r)
      if (timeline.lanes[l].kind == Kind::stream && timeline.lanes[l].rows[r].source == source)
        rows[timeline.lanes[l].device].emplace_back(static_cast<int>(l), r);
  path.spans.clear();
  for (const CriticalStep& step : path.steps) {
    std::int64_t end = timeline.sources[source].last_end[step.task.index()];
    for (auto [lane, row] : rows[step.device]) {
      const auto& spans = timeline.lanes[static_cast<std::size_t>(lane)].rows[row].spans;
      auto at = std::partition_point(spans.begin(), spans.end(), [&](const TimelineSpan& s) { return s.end < end; });
      for (; at != spans.end() && at->start <= end; ++at)
        if (at->task == step.task.value) {
          path.spans.push_back({lane, row, at->start, at->end});
          break;
        }
      if (at != spans.end() && at->start <= end) break;
    }
  }
}

std::vector<RowPlace> place_rows(const Timeline& timeline, const TimelineOptions& options) {
  constexpr float kStream = 17, kLevel = 26, kBetween = 4;
  std::vector<std::string> words;
  for (std::string_view rest = options.filter; !rest.empty();) {
    std::size_t blank = rest.find(' ');
    if (blank != 0) words.emplace_back(rest.substr(0, blank));
    rest = blank == std::string_view::npos ? std::string_view() : rest.substr(blank + 1);
  }
  std::vector<RowPlace> places;
  float y = 0;
  for (std::size_t l = 0; l < timeline.lanes.size(); ++l) {
    const TimelineLane& lane = timeline.lanes[l];
    if ((lane.kind == Kind::link && !options.links) || (lane.kind == Kind::memory && !options.memory)) continue;
    if (!std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return lane.title.find(word) != std::string::npos; }))
      continue;
    for (std::size_t r = 0; r < lane.rows.size(); ++r) {
      float h = lane.kind == Kind::stream ? kStream : kLevel;
      places.push_back({l, r, y, h});
      y += h + 1;
    }
    y += kBetween;
  }
  return places;
}

}  // namespace unity::gui
