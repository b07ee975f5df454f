#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "core/base/text.h"
#include "gui/panels/timeline/timeline.h"
#include "simulator/link_use.h"

namespace unity::gui {
namespace {

using Kind = TimelineLane::Kind;

constexpr std::int64_t kForeign = 1 << 30;  // the first number of what the machine in front has not

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
  explicit Lanes(const Topology* topology) : topology_(topology) {
    if (!topology) return;
    for (std::size_t l = 0; l < topology->links.size(); ++l)
      links_[link_name(*topology, LinkId(static_cast<std::int64_t>(l)))].push_back(static_cast<std::int64_t>(l));
  }

  // What follows is of this trace.
  void begin(const Trace& trace, const Topology* topology) {
    number_devices(topology);
    number_links(trace);
  }
  TimelineRow& row(Kind kind, std::int64_t own, int stream, std::size_t source) {
    const auto& numbers = kind == Kind::link ? link_of_ : device_of_;
    auto at = numbers.find(own);
    std::int64_t id = at == numbers.end() ? own : at->second;
    auto& rows = lanes_[{kind == Kind::link, id, kind == Kind::memory, stream}];
    if (rows.empty() || rows.back().source != source) {
      rows.emplace_back();
      rows.back().source = source;
      if (kind != Kind::link) rows.back().device = DeviceId(own);
    }
    return rows.back();
  }

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
        auto foreign = foreign_names_.find(id);
        lane.title = (known                             ? topology_->device(lane.device).name
                      : foreign != foreign_names_.end() ? foreign->second
                                                        : fmt::format("device {}", id)) +
                     " " + (is_memory ? std::string("memory") : std::string(to_string(static_cast<Stream>(stream))));
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
  void number_devices(const Topology* own) {
    device_of_.clear();
    if (!own || !topology_ || own == topology_) return;
    std::map<std::string, std::int64_t> ours;
    for (std::size_t d = 0; d < topology_->device_count(); ++d)
      ours[topology_->devices[d].name] = static_cast<std::int64_t>(d);
    for (std::size_t d = 0; d < own->device_count(); ++d) {
      const std::string& name = own->devices[d].name;
      auto at = ours.find(name);
      if (at == ours.end())
        at = foreign_.try_emplace(name, kForeign + static_cast<std::int64_t>(foreign_.size())).first;
      device_of_[static_cast<std::int64_t>(d)] = at->second;
      if (at->second >= kForeign) foreign_names_[at->second] = name;
    }
  }

  // By name; of several links of one name, by their order.
  void number_links(const Trace& trace) {
    link_of_.clear();
    std::set<std::int64_t> taken;
    auto take = [&](const LinkUsage& usage, std::int64_t id) {
      taken.insert(id);
      link_of_[usage.link.value] = id;
      link_names_[id] = usage.name;
    };
    auto is = [&](const LinkUsage& usage, std::int64_t id) {
      const auto& known = links_[usage.name];
      return std::find(known.begin(), known.end(), id) != known.end();
    };
    for (const LinkUsage& usage : trace.links)
      if (is(usage, usage.link.value)) take(usage, usage.link.value);
    for (const LinkUsage& usage : trace.links) {
      if (link_of_.contains(usage.link.value)) continue;
      auto& known = links_[usage.name];
      auto free = std::find_if(known.begin(), known.end(), [&](std::int64_t id) { return !taken.contains(id); });
      if (free == known.end()) {
        bool ours = topology_ || link_names_.contains(usage.link.value);
        known.push_back(ours ? kForeign + foreign_links_++ : usage.link.value);
        free = std::prev(known.end());
      }
      take(usage, *free);
    }
  }

  const Topology* topology_;
  std::map<std::string, std::vector<std::int64_t>> links_;  // by name: numbers of lanes
  std::map<std::string, std::int64_t> foreign_;             // devices by name
  std::map<std::int64_t, std::string> foreign_names_;
  std::int64_t foreign_links_ = 0;
  std::map<std::int64_t, std::int64_t> device_of_, link_of_;  // of the source's own number; others are as they are
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
    lanes.begin(trace, inputs[s].topology);
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
        rows[timeline.lanes[l].rows[r].device].emplace_back(static_cast<int>(l), r);
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
