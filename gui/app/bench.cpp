#include "gui/app/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace unity::gui {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kPatience = 120;
constexpr int kFrames = 120, kEdits = 5;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void line(const std::string& what, double seconds, double goal) {
  fmt::print("{:<58} {:>9.1f} ms  (goal {:.0f} ms){}\n", what, 1000 * seconds, 1000 * goal,
             seconds <= goal ? "" : "  missed");
}

void run(App& app, const std::string& command, const Arguments& arguments = {}) {
  app.session().commands.run(command, arguments).value();
}

// The median time of frames while the graph moves.
double panning(App& app) {
  std::vector<double> times;
  FrameInput nothing;
  for (int i = 0; i < kFrames; ++i) {
    run(app, i / 20 % 2 == 0 ? "pcg.pan_down" : "pcg.pan_up");
    app.frame(&nothing, true);
    times.push_back(app.last_frame_seconds());
  }
  return median(times);
}

void bench_graph(App& app) {
  app.session().open({.source = "gpt2-medium"});
  if (!app.settle(kPatience)) throw_input_error("bench: the graph was not laid out in {} s", kPatience);
  run(app, "pcg.expand_all");
  Clock::time_point begin = Clock::now();
  if (!app.settle(kPatience)) throw_input_error("bench: the graph was not laid out in {} s", kPatience);
  std::size_t nodes = app.session().document()->graph().size();
  fmt::print("{:<58} {:>9.1f} ms\n", fmt::format("layout of a graph of {} nodes, all expanded, off-thread", nodes),
             1000 * since(begin));
  run(app, "pcg.fit");
  line("frame while panning it, all in view", panning(app), 0.016);
  run(app, "pcg.zoom_in");
  for (int i = 0; i < 40; ++i) {
    FrameInput nothing;
    run(app, "pcg.zoom_in");
    app.frame(&nothing);
  }
  for (double zoom : {0.5, 0.25}) {
    FrameInput nothing;
    for (int i = 0; i < 3; ++i) run(app, "pcg.zoom_out"), app.frame(&nothing);
    line(fmt::format("frame while panning it, zoomed in ({})", zoom), panning(app), 0.016);
  }
  run(app, "close");
}

// A trace of a million spans: 64 devices, each with a stream that computes and one that communicates, spans of 1 to 40
// us with gaps between them.
Snapshot long_trace() {
  constexpr int kDevices = 64, kStreams = 2, kSpans = 1'000'000;
  auto trace = std::make_shared<Trace>();
  trace->source = "simulated";
  std::uint64_t random = 1;
  auto next = [&random](std::uint64_t most) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((random >> 33) % most);
  };
  for (int d = 0; d < kDevices; ++d)
    for (int s = 0; s < kStreams; ++s) {
      std::int64_t at = 0;
      for (int i = 0; i < kSpans / kDevices / kStreams; ++i) {
        std::int64_t start = at + next(10'000'000), end = start + 1'000'000 + next(39'000'000);
        trace->spans.push_back({TaskId(static_cast<std::int64_t>(trace->spans.size())),
                                DeviceId(d),
                                static_cast<std::uint8_t>(s),
                                {start},
                                {end}});
        at = end;
      }
      trace->iteration = std::max(trace->iteration, Picoseconds{at});
    }
  // 1,000,000 is no multiple of 128: the rest behind the last.
  while (trace->spans.size() < kSpans) {
    Span last = trace->spans.back();
    last.task = TaskId(static_cast<std::int64_t>(trace->spans.size()));
    std::swap(last.start, last.end);
    last.end = {last.start.count + 1'000'000};
    trace->spans.push_back(last);
  }
  std::sort(trace->spans.begin(), trace->spans.end(), starts_before);
  auto document = std::make_shared<Document>();
  document->title = "a million spans";
  document->model = std::make_shared<const Pcg>();
  document->trace = std::move(trace);
  return document;
}

// The median and the longest time of frames while the timeline moves or is zoomed.
std::pair<double, double> moving(App& app, const char* there, const char* back) {
  std::vector<double> times;
  FrameInput nothing;
  for (int i = 0; i < kFrames; ++i) {
    run(app, i / 10 % 2 == 0 ? there : back);
    app.frame(&nothing, true);
    times.push_back(app.last_frame_seconds());
  }
  return {median(times), *std::max_element(times.begin(), times.end())};
}

void bench_timeline(App& app) {
  FrameInput nothing;
  run(app, "show_timeline");
  run(app, "taller");
  app.session().add(long_trace());
  Clock::time_point begin = Clock::now();
  app.frame(&nothing);
  if (!app.settle(kPatience)) throw_input_error("bench: the timeline was not ready in {} s", kPatience);
  std::size_t spans = app.session().document()->trace->spans.size();
  fmt::print("{:<58} {:>9.1f} ms\n", fmt::format("timeline of {} spans, off-thread", spans), 1000 * since(begin));
  auto measure = [&](const char* what, const char* there, const char* back) {
    auto [middle, longest] = moving(app, there, back);
    line(fmt::format("frame while {} it ({:.1f} ms at most)", what, 1000 * longest), middle, 0.016);
  };
  measure("panning", "timeline.pan_right", "timeline.pan_left");
  measure("zooming", "timeline.zoom_in", "timeline.zoom_out");
  measure("scrolling", "timeline.down", "timeline.up");
  for (int i = 0; i < 6; ++i) run(app, "timeline.zoom_in"), app.frame(&nothing);
  app.settle(kPatience);
  measure("panning (zoomed in)", "timeline.pan_right", "timeline.pan_left");
  run(app, "taller");
  run(app, "show_info");
  run(app, "close");
}

void bench_plan(App& app, const OpenRequest& request) {
  Clock::time_point begin = Clock::now();
  app.session().open(request);
  FrameInput nothing;
  while (!app.session().document() && since(begin) < kPatience && app.session().messages().empty()) {
    app.frame(&nothing);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  if (!app.session().document())
    throw_input_error("bench: {}", app.session().messages().empty() ? "no document" : app.session().messages()[0].text);
  double shown = since(begin);
  while (!app.session().prediction() && since(begin) < kPatience) {
    app.frame(&nothing);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  double predicted = since(begin);
  app.settle(kPatience);
  const std::string title = app.session().document()->title;
  line("open " + title, shown, 2);
  line("open " + title + ", until its time is predicted", predicted, 2);
  line("open " + title + ", until everything is simulated", since(begin), 2);
  line("frame while panning its graph, machine in view", panning(app), 0.016);
  run(app, "show_timeline");
  FrameInput still;
  app.frame(&still);
  app.settle(kPatience);
  line("frame while panning its timeline", moving(app, "timeline.pan_right", "timeline.pan_left").first, 0.016);
  run(app, "show_info");
  const Plan& plan = *app.session().document()->plan;
  // An edit, until a time is shown, and until that is the simulated one; undone again.
  struct Edits {
    std::vector<double> shown, exact, off;
  };
  auto edit = [&](const std::string& command, const Arguments& arguments, Edits& edits) {
    if (!app.session().commands.run(command, arguments).ok()) return;
    double about = 0;
    for (;;) {
      PredictionPtr now = app.session().prediction();
      if (now && now->estimated) about = now->iteration.seconds();
      if (now && !now->estimated) break;
      app.frame(&nothing);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    double exact = app.session().prediction()->iteration.seconds();
    edits.shown.push_back(app.session().last_edit_seconds());
    edits.exact.push_back(app.session().last_edit_exact_seconds());
    if (about > 0) edits.off.push_back(std::abs(about / exact - 1));
    app.settle(kPatience);
    run(app, "undo");
    app.settle(kPatience);
  };
  auto say = [](const std::string& what, const Edits& edits) {
    if (edits.shown.empty()) return;
    line(what + ", until its time is shown", median(edits.shown), 0.1);
    fmt::print("{:<58} {:>9.1f} ms", "  until it is simulated", 1000 * median(edits.exact));
    if (!edits.off.empty()) fmt::print("  (shown before: off by {:.2f}%)", 100 * median(edits.off));
    fmt::print("\n");
  };
  Edits mapped, applied;
  for (std::size_t i = 0; i < plan.pcg.size() && mapped.shown.size() < kEdits; ++i) {
    const Node& node = plan.pcg.nodes()[i];
    if (!node.is_compute() || plan.mappings[i].strides.empty()) continue;
    MachineMapping turned = plan.mappings[i];
    TaskGrid grid = node_grid(plan.pcg, NodeId(static_cast<std::int64_t>(i)));
    for (const MachineMapping& other :
         mappings(grid, *app.session().document()->topology,
                  {0, static_cast<int>(app.session().document()->topology->device_count())}))
      if (other != plan.mappings[i]) turned = other;
    if (turned == plan.mappings[i]) continue;
    std::string strides;
    for (int s : turned.strides) strides += fmt::format("{} ", s);
    edit("set_mapping",
         {{"nodes", fmt::format("{}", i)}, {"start", std::to_string(turned.start)}, {"strides", strides}}, mapped);
  }
  say("an operator mapped anew", mapped);
  for (const char* name : {"merge_matmuls", "fuse_attention", "shard_gelu_d0", "shard_gelu_d1", "unfuse_attention"}) {
    Arguments arguments = {{"rule", name}, {"match", "0"}};
    if (std::string(name).starts_with("shard")) arguments["parameters"] = "d=2";
    edit("apply_rule", arguments, applied);
  }
  say("a rule applied", applied);
  std::vector<double> edits;
  for (const char* factor : {"2", "0.5", "4", "1"}) {
    run(app, "set_scale", {{"what", "link"}, {"factor", factor}});
    while (!app.session().prediction()) {
      app.frame(&nothing);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    edits.push_back(app.session().last_edit_seconds());
    app.settle(kPatience);
  }
  line("all links faster or slower, until its time is shown", median(edits), 0.1);
  run(app, "close");
}

}  // namespace

void run_bench(App& app, const std::vector<OpenRequest>& plans, double start) {
  line("start to first frame", start, 1);
  app.settle(kPatience);
  while (!app.session().files().empty()) app.session().close(0);
  bench_graph(app);
  bench_timeline(app);
  for (const OpenRequest& plan : plans) bench_plan(app, plan);
}

}  // namespace unity::gui
