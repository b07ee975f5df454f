// Traces as lanes: one for each stream and the memory of each device, and one for each link. A lane has a row for each
// trace, so that a measurement stands below the prediction, or a plan below another.
//
//   make_timeline   sorts traces into lanes, once
//   reduce          what is seen of some lanes at some zoom, in pixels: O(pixels * log spans) for each row
//   paint_timeline  draws that; its time depends on pixels alone
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/machine/topology.h"
#include "core/trace/critical_path.h"
#include "core/trace/trace.h"
#include "gui/layout/geometry.h"
#include "gui/session/prediction.h"
#include "gui/widgets/painter.h"

namespace unity::gui {

enum class SpanKind : std::uint8_t { forward, backward, update, communication, copy, unknown };
inline constexpr std::size_t kSpanKinds = 6;
const char* to_string(SpanKind kind);

struct TimelineSpan {
  std::int64_t start = 0, end = 0;  // picoseconds
  std::int32_t task = 0;
  SpanKind kind = SpanKind::unknown;
};

// Of a link: the fraction of its bandwidth in use from a time on. Of memory: bytes by category.
struct TimelineLevel {
  static constexpr std::size_t kParts = 5;
  std::int64_t time = 0;
  std::array<float, kParts> parts = {};
  float sum() const;
};

struct TimelineRow {
  std::size_t source = 0;
  DeviceId device;                   // its number in the source's own machine
  std::vector<TimelineSpan> spans;   // of streams, by start
  std::vector<std::int64_t> busy;    // by span: picoseconds that all before it take
  std::vector<TimelineLevel> level;  // of links and memory, by time
};

// Of a device or link by its name: sources may be of different machines, whose numbers differ.
struct TimelineLane {
  enum class Kind : std::uint8_t { stream, memory, link };
  Kind kind = Kind::stream;
  DeviceId device;  // of the machine in front; a number that it has not: a device of another one. Links alike
  LinkId link;
  int stream = 0;
  std::string title;  // "node0.gpu3 compute"
  std::vector<TimelineRow> rows;
  float most = 1;  // what the full height of a level stands for
};

struct TimelineSource {
  std::string title;                       // "predicted", "measured"
  std::shared_ptr<const Program> program;  // null: of an unknown one
  std::vector<NodeId> node_of_task;        // of the active document's graph
  std::int64_t iteration = 0;
  std::vector<std::int64_t> first_start, last_end;  // by task; -1: it has no span
};

struct Timeline {
  std::vector<TimelineSource> sources;
  std::vector<TimelineLane> lanes;  // by device: streams, memory; then links
  std::int64_t end = 1;
  std::size_t spans = 0;

  std::string task_name(std::size_t source, std::int32_t task) const;
  NodeId node(std::size_t source, std::int32_t task) const;
};

struct TimelineInput {
  std::string title;
  const Trace* trace = nullptr;
  std::shared_ptr<const Program> program;  // null: unknown
  const Topology* topology = nullptr;      // its machine; null: that in front
};
// `graph` and `topology` may be null: then operators are not known, and devices and links have numbers.
Timeline make_timeline(const std::vector<TimelineInput>& inputs, const Pcg* graph, const Topology* topology);

// A span by lane, row and index, with its times.
struct SpanAt {
  int lane = -1;
  std::size_t row = 0;
  std::int64_t start = 0, end = 0;
};

// Which tasks each source's iteration waits for (core/trace/critical_path.h).
struct TimelinePath {
  std::vector<CriticalStep> steps;
  std::vector<bool> on;          // by task
  std::vector<DeviceId> device;  // by task on the path
  std::vector<SpanAt> spans;     // where its steps stand, in order of time; of those that have a span
  bool holds(std::int32_t task, DeviceId on_device) const;
};
TimelinePath timeline_path(const Trace& trace, const Program& program);
// Fills in where the steps stand.
void place_path(TimelinePath& path, const Timeline& timeline, std::size_t source);

// --- what is seen

struct TimelineOptions {
  bool links = true, memory = true, critical = true;
  std::string filter;  // words that titles of lanes hold
  bool operator==(const TimelineOptions&) const = default;
};

// Where a row stands; y from the top of all lanes.
struct RowPlace {
  std::size_t lane = 0, row = 0;
  float y = 0, h = 0;
};
std::vector<RowPlace> place_rows(const Timeline& timeline, const TimelineOptions& options);

// Which part of time, in pixels of `step` picoseconds.
struct TimeWindow {
  std::int64_t from = 0;
  double step = 1;
  int pixels = 0;
  bool operator==(const TimeWindow&) const = default;
};

struct TimelineBar {
  float x0 = 0, x1 = 0;  // pixels of the window
  SpanKind kind = SpanKind::unknown;
  std::uint8_t fill = 4;  // of 4: how much of a pixel is busy, where several spans share it
  bool critical = false;
  std::int32_t span = -1;  // the one that it is; -1: several
  bool operator==(const TimelineBar&) const = default;
};

// Idle time of a stream long enough to be seen, and what the span after it waited for.
struct TimelineGap {
  float x0 = 0, x1 = 0;
  std::int32_t next = -1;  // span
  std::string cause;
};

struct TimelineSteps {
  float x0 = 0, x1 = 0;
  std::array<float, TimelineLevel::kParts> parts = {};  // the fullest moment within
};

struct RowView {
  std::vector<TimelineBar> bars, selected;
  std::vector<TimelineGap> gaps;
  std::vector<TimelineSteps> steps;
};

// `wanted`: bars for spans of these tasks alone (by task; null: all).
std::vector<TimelineBar> reduce_spans(const TimelineRow& row, const TimeWindow& window,
                                      const std::vector<bool>* wanted = nullptr, const TimelinePath* path = nullptr,
                                      DeviceId device = {});
std::vector<TimelineSteps> reduce_levels(const TimelineRow& row, const TimeWindow& window);
// `selected`: nodes whose spans are highlighted. `paths` by source; may be empty.
RowView reduce_row(const Timeline& timeline, std::size_t lane, std::size_t row, const TimeWindow& window,
                   const std::vector<std::vector<bool>>& wanted, const std::vector<TimelinePath>& paths);
// By source and task: whether it stems from one of these nodes. Empty lists where there are none.
std::vector<std::vector<bool>> tasks_of(const Timeline& timeline, const std::vector<NodeId>& nodes);

// --- what one asks of it

// Of the spans that reach into a range of time: counted where they begin or end in it, their times cut there.
struct RangeStatistics {
  struct Group {
    std::string name;  // "forward", "communication"
    SpanKind kind = SpanKind::unknown;
    std::int64_t count = 0;
    Picoseconds sum, least, most;
    Picoseconds mean() const { return {count ? sum.count / count : 0}; }
  };
  std::vector<Group> groups;  // most time first
  Group all;
  // Means over the devices, as fractions of the range. Overlap: computes and communicates at the same time.
  double compute = 0, communication = 0, overlap = 0, idle = 0;
};
RangeStatistics range_statistics(const Timeline& timeline, std::size_t source, std::int64_t from, std::int64_t to);

// What the span at `next` waited for, in a few words: the dependency that ended last, and what that one waited for.
std::string gap_cause(const Timeline& timeline, std::size_t lane, std::size_t row, std::size_t next);
// Tasks that wait for this one, at most `most`.
std::vector<TaskId> waiting_for(const Program& program, TaskId task, std::size_t most);

// A span by lane, row and index.
struct SpanPlace {
  int lane = -1;
  std::size_t row = 0, span = 0;
  bool valid() const { return lane >= 0; }
  bool operator==(const SpanPlace&) const = default;
};
// Of a task on a device, else on the first device that has it.
SpanPlace find_span(const Timeline& timeline, std::size_t source, TaskId task, DeviceId device);

struct TimelineArrow {
  SpanPlace from, to;
};
// From what the span waited for, and to what waits for it: on its own device, else where they are.
std::vector<TimelineArrow> arrows_of(const Timeline& timeline, const SpanPlace& span);

// --- drawing

struct TimelineLook {
  const Theme& theme;
  const TextMetrics& metrics;
  Rect area;  // of everything; lanes are right of kGutter, below kRuler
  float scroll = 0;
  TimeWindow now;  // of the lanes' part of the area
  const std::vector<RowPlace>* places = nullptr;
  SpanPlace selected;
  std::vector<TimelineArrow> arrows;
  const std::vector<TimelinePath>* paths = nullptr;
  DeviceId device;
  LinkId link;
  std::int64_t range_from = -1, range_to = -1;
};
inline constexpr float kGutter = 172, kRuler = 20;

// What was reduced: rows [first, first + rows.size()) of the places, for a window that may be another than the one
// drawn.
struct TimelineView {
  TimeWindow window;
  std::size_t first = 0;
  std::vector<RowView> rows;
};
void paint_timeline(Painter& painter, const Timeline& timeline, const TimelineView& view, const TimelineLook& look);
Color span_color(const Theme& theme, SpanKind kind);

// A round length that at most `most` of fit into the time: 1, 2 or 5 times a power of ten.
std::int64_t tick_length(std::int64_t time, int most);

}  // namespace unity::gui
