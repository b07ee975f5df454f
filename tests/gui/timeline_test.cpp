// The timeline: what it prepares of traces written by hand, with numbers counted from them.
#include "gui/panels/timeline/timeline.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "core/trace/trace_json.h"
#include "gui/session/session.h"
#include "simulator/link_use.h"
#include "tests/gui/support.h"

using namespace unity;
using namespace unity::gui;

namespace {

Span span(int task, int device, Stream stream, std::int64_t start, std::int64_t end) {
  return {TaskId(task), DeviceId(device), static_cast<std::uint8_t>(stream), {start}, {end}};
}

// Two devices: one computes 0-40 and 60-100 and communicates 30-60 meanwhile, the other only communicates.
Trace small_trace() {
  Trace trace;
  trace.source = "simulated";
  trace.iteration = {100};
  trace.spans = {span(0, 0, Stream::compute, 0, 40), span(1, 0, Stream::communication, 30, 60),
                 span(1, 1, Stream::communication, 30, 60), span(2, 0, Stream::compute, 60, 100)};
  trace.memory = {{DeviceId(0), 0, {0}, {100}}, {DeviceId(0), 3, {10}, {50}}, {DeviceId(0), 3, {90}, {0}}};
  trace.links = {{LinkId(7), "a -> b", {1e9}, {30}}};
  trace.link_use = {{LinkId(7), {30}, LinkSample::kFull / 2}, {LinkId(7), {60}, 0}};
  return trace;
}

TimelineRow row_of(std::int64_t count, std::int64_t every, std::int64_t length) {
  TimelineRow row;
  for (std::int64_t i = 0; i < count; ++i) {
    row.spans.push_back({i * every, i * every + length, static_cast<std::int32_t>(i), SpanKind::forward});
    row.busy.push_back(i * length);
  }
  row.busy.push_back(count * length);
  return row;
}

}  // namespace

TEST_CASE("a trace has a lane for each stream and memory of a device, then the links") {
  Trace trace = small_trace();
  Timeline timeline = make_timeline({{"predicted", &trace, nullptr}}, nullptr, nullptr);
  std::vector<std::string> titles;
  for (const TimelineLane& lane : timeline.lanes) titles.push_back(lane.title);
  CHECK(titles == std::vector<std::string>{"device 0 compute", "device 0 communication", "device 0 memory",
                                           "device 1 communication", "a -> b"});
  CHECK(timeline.lanes[2].most == 150);  // 100 of weights and 50 of activations
  CHECK(timeline.spans == 4);
}

TEST_CASE("a second trace stands in the same lanes, in rows of its own") {
  Trace predicted = small_trace(), measured = small_trace();
  measured.spans.pop_back();
  Timeline timeline =
      make_timeline({{"predicted", &predicted, nullptr}, {"measured", &measured, nullptr}}, nullptr, nullptr);
  REQUIRE(timeline.lanes.size() == 5);
  for (const TimelineLane& lane : timeline.lanes) CHECK(lane.rows.size() == 2);
  CHECK(timeline.lanes[0].rows[1].spans.size() == 1);
  CHECK(place_rows(timeline, {}).size() == 10);
  CHECK(place_rows(timeline, {.links = false, .memory = false}).size() == 6);
  CHECK(place_rows(timeline, {.filter = "0 comm"}).size() == 2);
}

TEST_CASE("plans for different machines share the lanes of devices and links of the same names") {
  // Of two nodes, the second's devices come behind; links of four nodes have other numbers than those of two.
  Topology two = load_topology("summit", {2, 0}), four = load_topology("summit", {4, 0});
  auto trace_on = [](const Topology& topology, DeviceId device) {
    Trace trace;
    trace.iteration = {100};
    trace.spans = {{TaskId(0), device, static_cast<std::uint8_t>(Stream::compute), {0}, {40}}};
    for (std::size_t l = 0; l < topology.links.size(); ++l) {
      LinkId id(static_cast<std::int64_t>(l));
      trace.links.push_back({id, link_name(topology, id), {1e9}, {30}});
      trace.link_use.push_back({id, {0}, LinkSample::kFull / 2});
    }
    return trace;
  };
  Trace small = trace_on(two, DeviceId(7)), large = trace_on(four, DeviceId(20));
  Timeline timeline =
      make_timeline({{"small", &small, nullptr, &two}, {"large", &large, nullptr, &four}}, nullptr, &two);
  std::size_t shared = 0, foreign = 0;
  for (const TimelineLane& lane : timeline.lanes) {
    if (lane.kind != TimelineLane::Kind::link) continue;
    if (lane.link.index() >= two.links.size()) {
      ++foreign;
      CHECK(lane.rows.size() == 1);
    } else {
      ++shared;
      CHECK(lane.rows.size() == 2);
      CHECK(lane.title == link_name(two, lane.link));
    }
  }
  CHECK(shared == two.links.size());
  CHECK(shared + foreign == four.links.size());
  REQUIRE(timeline.lanes.size() == four.links.size() + 2);
  CHECK(timeline.lanes[0].title == two.devices[7].name + " compute");
  auto other = std::find_if(timeline.lanes.begin(), timeline.lanes.end(),
                            [&](const TimelineLane& lane) { return lane.title == four.devices[20].name + " compute"; });
  REQUIRE(other != timeline.lanes.end());
  CHECK(other->device.index() >= two.device_count());
  CHECK(other->rows[0].device == DeviceId(20));
}

TEST_CASE("spans of five pixels and more stand for themselves, shorter ones share a bar") {
  // 100 ps long, one every 100 ps: at 10 ps a pixel, 10 pixels each.
  TimelineRow row = row_of(1000, 100, 100);
  auto large = reduce_spans(row, {0, 10, 200});
  CHECK(large.size() == 20);
  CHECK(large[3].span == 3);
  CHECK(large[3].x0 == 30);
  // At 1000 ps a pixel all is busy: one bar.
  auto small = reduce_spans(row, {0, 1000, 100});
  REQUIRE(small.size() == 1);
  CHECK(small[0].span == -1);
  CHECK(small[0].fill == 4);
  // Busy for 25 of 100 ps: a quarter of each pixel.
  auto quarter = reduce_spans(row_of(1000, 100, 25), {0, 1000, 100});
  REQUIRE(quarter.size() == 1);
  CHECK(quarter[0].fill == 1);
}

TEST_CASE("bars are as many as pixels allow, however many spans there are") {
  TimelineRow row = row_of(1'000'000, 10, 5);
  for (double step : {1.0, 17.0, 900.0, 6000.0}) {
    auto bars = reduce_spans(row, {0, step, 1500});
    CHECK(bars.size() <= 1500);
    CHECK(!bars.empty());
  }
}

TEST_CASE("a long span among short ones keeps its own bar") {
  TimelineRow row;
  row.spans = {{0, 1, 0, SpanKind::forward}, {1, 500, 1, SpanKind::communication}, {500, 501, 2, SpanKind::forward}};
  row.busy = {0, 1, 500, 501};
  auto bars = reduce_spans(row, {0, 10, 100});
  REQUIRE(bars.size() == 3);
  CHECK(bars[1].kind == SpanKind::communication);
  CHECK(bars[1].span == 1);
}

TEST_CASE("the fullest moment of a pixel is what a level shows there") {
  TimelineRow row;
  for (int i = 0; i < 100; ++i) row.level.push_back({i, {i == 57 ? 9.0f : 1.0f}});
  auto steps = reduce_levels(row, {0, 100, 2});
  REQUIRE(!steps.empty());
  CHECK(steps[0].parts[0] == 9);
  // What the last moment says holds on.
  CHECK(steps.back().parts[0] == 1);
  CHECK(steps.back().x1 == 2);
}

TEST_CASE("statistics of a range count what reaches into it") {
  Trace trace = small_trace();
  Timeline timeline = make_timeline({{"predicted", &trace, nullptr}}, nullptr, nullptr);
  RangeStatistics all = range_statistics(timeline, 0, 0, 100);
  // Device 0 computes 80 and communicates 30, of which 10 at the same time; device 1 communicates 30; means of both.
  CHECK(all.compute == Approx(0.4));
  CHECK(all.communication == Approx(0.3));
  CHECK(all.overlap == Approx(0.05));
  CHECK(all.idle == Approx(1 - (100 + 30) / 200.0));
  CHECK(all.all.count == 4);
  CHECK(all.all.least == Picoseconds{30});
  CHECK(all.all.most == Picoseconds{40});
  RangeStatistics part = range_statistics(timeline, 0, 50, 70);
  CHECK(part.all.count == 3);
  CHECK(part.all.sum == Picoseconds{10 + 10 + 10});
}

TEST_CASE("gaps, arrows and the path of a plan's prediction agree with its dependencies") {
  Snapshot document = small_plan();
  PlanPrediction prediction = Predictor().whole(*document);
  const Trace& trace = prediction.result.trace;
  Timeline timeline =
      make_timeline({{"predicted", &trace, prediction.program}}, &document->graph(), document->topology.get());
  CHECK(timeline.spans == trace.spans.size());
  TimelinePath path = timeline_path(trace, *prediction.program);
  REQUIRE(!path.steps.empty());
  CHECK(path.holds(static_cast<std::int32_t>(path.steps[0].task.value), path.steps[0].device));
  TaskId communication;
  for (std::size_t t = 0; t < prediction.program->tasks.size() && !communication.valid(); ++t)
    if (prediction.program->tasks[t].kind == TaskKind::communicate &&
        !waiting_for(*prediction.program, TaskId(static_cast<std::int64_t>(t)), 1).empty())
      communication = TaskId(static_cast<std::int64_t>(t));
  REQUIRE(communication.valid());
  SpanPlace place = find_span(timeline, 0, communication, DeviceId(1));
  REQUIRE(place.valid());
  CHECK(timeline.lanes[static_cast<std::size_t>(place.lane)].rows[place.row].spans[place.span].task ==
        communication.value);
  auto arrows = arrows_of(timeline, place);
  CHECK(std::any_of(arrows.begin(), arrows.end(), [&](const TimelineArrow& a) { return a.from == place; }));
  for (const TimelineArrow& a : arrows) {
    auto time = [&](const SpanPlace& p) {
      return timeline.lanes[static_cast<std::size_t>(p.lane)].rows[p.row].spans[p.span];
    };
    CHECK(time(a.from).end <= time(a.to).start);
  }
  // A compute task that begins later than the one before it ends says what it waited for.
  bool waits = false;
  for (std::size_t l = 0; l < timeline.lanes.size(); ++l) {
    if (timeline.lanes[l].kind != TimelineLane::Kind::stream) continue;
    const auto& spans = timeline.lanes[l].rows[0].spans;
    for (std::size_t i = 1; i < spans.size(); ++i)
      if (spans[i].start > spans[i - 1].end) waits |= gap_cause(timeline, l, 0, i).starts_with("waits for all_");
  }
  CHECK(waits);
  std::vector<std::vector<bool>> wanted =
      tasks_of(timeline, {timeline.node(0, timeline.lanes[0].rows[0].spans[0].task)});
  CHECK(wanted[0][static_cast<std::size_t>(timeline.lanes[0].rows[0].spans[0].task)]);
}

TEST_CASE("a trace file opens as a document, behind the plan that is shown") {
  std::string file =
      (std::filesystem::temp_directory_path() / fmt::format("unity-gui-{}-trace.json", getpid())).string();
  save_trace(small_trace(), file);
  Snapshot document = open_document({.source = file});
  REQUIRE(document->trace);
  CHECK(document->trace->spans.size() == 4);
  CHECK(document->graph().size() == 0);
  Session session;
  session.add(small_plan());
  session.add(document);
  CHECK(session.files().size() == 2);
  CHECK(session.document()->plan);
  std::filesystem::remove(file);
}

TEST_CASE("ticks are round and at most as many as asked for") {
  CHECK(tick_length(100, 10) == 10);
  CHECK(tick_length(110, 10) == 20);
  CHECK(tick_length(410, 10) == 50);
}

TEST_CASE("the steps of a critical path stand where their spans are, one after another") {
  Snapshot plan = small_plan();
  PlanPrediction whole = Predictor().whole(*plan);
  Timeline timeline =
      make_timeline({{"predicted", &whole.result.trace, whole.program}}, &plan->graph(), plan->topology.get());
  TimelinePath path = timeline_path(whole.result.trace, *whole.program);
  place_path(path, timeline, 0);
  REQUIRE(path.spans.size() == path.steps.size());
  for (std::size_t i = 0; i < path.spans.size(); ++i) {
    const SpanAt& at = path.spans[i];
    const TimelineLane& lane = timeline.lanes[static_cast<std::size_t>(at.lane)];
    CHECK(lane.device == path.steps[i].device);
    CHECK(at.end == timeline.sources[0].last_end[path.steps[i].task.index()]);
    if (i > 0) CHECK(at.start >= path.spans[i - 1].end);
  }
}
