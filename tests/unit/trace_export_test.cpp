#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/trace/compare.h"
#include "core/trace/perfetto.h"
#include "core/trace/trace_json.h"

using namespace unity;
using Catch::Contains;

namespace {

Span span(int task, int device, int stream, std::int64_t start, std::int64_t end) {
  return {TaskId(task), DeviceId(device), static_cast<std::uint8_t>(stream), {start}, {end}};
}

// Device 0 computes in [0, 40) and [60, 90), communicates in [30, 70): idle in [90, 100).
Trace example() {
  return {"simulated",
          0xfedcba9876543210u,
          {100},
          {span(0, 0, 0, 0, 40), span(1, 0, 1, 30, 70), span(1, 1, 1, 30, 70), span(2, 0, 0, 60, 90)},
          {{DeviceId(0), {0}, {1000}}, {DeviceId(0), {60}, {400}}}};
}

const std::vector<std::string> kNames = {"matmul a", "all_reduce \"g\"", "matmul b"};
const std::vector<std::string> kGroups = {"matmul", "all_reduce", "matmul"};

}  // namespace

TEST_CASE("a trace is the same after writing and reading") {
  Trace t = trace_from_json(trace_to_json(example()), "t.json");
  CHECK(t.program == 0xfedcba9876543210u);
  CHECK(t.source == "simulated");
  CHECK(t.spans.size() == 4);
  CHECK(t.memory[1].used.count == 400);
  CHECK(trace_to_json(t) == trace_to_json(example()));
}

TEST_CASE("a damaged trace file is refused with the place") {
  std::string text = trace_to_json(example());
  CHECK_THROWS_WITH(trace_from_json(text.substr(0, text.size() / 2), "t.json"),
                    Contains("t.json: byte") && Contains("truncated"));
  CHECK_THROWS_WITH(trace_from_json("{}", "t.json"), "t.json: key 'format' is missing");
  CHECK_THROWS_WITH(trace_from_json("[]", "t.json"), Contains("found array"));
  auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  CHECK_THROWS_WITH(trace_from_json(with("unity-trace", "unity-plan"), "t.json"), Contains("expected 'unity-trace'"));
  CHECK_THROWS_WITH(trace_from_json(with("[0,0,0,0,40]", "[0,0,0,0]"), "t.json"),
                    Contains("spans[0]: expected a list of 5"));
  CHECK_THROWS_WITH(trace_from_json(with("[0,0,0,0,40]", "[0,0,0,50,40]"), "t.json"),
                    Contains("spans[0]: ends before it starts"));
  CHECK_THROWS_WITH(trace_from_json(with("[0,0,0,0,40]", "[0,0,0,0,\"x\"]"), "t.json"),
                    Contains("spans[0][4]: found string"));
}

TEST_CASE("the Perfetto export has an event for each span, with picoseconds kept") {
  Trace trace = example();
  trace.spans[0].end = {1'234'567};
  std::vector<std::pair<TaskId, TaskId>> arrows = {{TaskId(0), TaskId(1)}};
  std::string text = trace_to_perfetto(trace, {kNames, kGroups, {}, arrows});
  CHECK_THAT(text, Contains("\"dur\":1.234567"));
  nlohmann::json root = nlohmann::json::parse(text);
  int complete = 0, counters = 0, processes = 0, arrow_ends = 0;
  for (const auto& e : root["traceEvents"]) {
    complete += e["ph"] == "X";
    counters += e["ph"] == "C";
    processes += e["name"] == "process_name";
    arrow_ends += e["ph"] == "s" || e["ph"] == "f";
  }
  CHECK(complete == 4);
  CHECK(counters == 2);
  CHECK(processes == 2);
  CHECK(arrow_ends == 2);
  CHECK_THAT(text, Contains("all_reduce \\\"g\\\""));
}

TEST_CASE("a device is idle when no stream runs") {
  std::vector<DeviceUse> use = device_use(example());
  REQUIRE(use.size() == 2);
  CHECK(use[0].compute.count == 40 + 30);
  CHECK(use[0].communication.count == 40);
  CHECK(use[0].idle.count == 10);
  CHECK(use[1].idle.count == 60);
}

TEST_CASE("a comparison lists tasks and groups and how far the prediction is off") {
  Trace predicted = example(), measured = example();
  measured.source = "measured";
  measured.spans[0].end = {80};   // task 0: predicted 40, measured 80: off by 1/2
  measured.spans[2].end = {110};  // task 1: 40 and (40 + 80) / 2 = 60: off by 1/3
  measured.spans[3].end = {80};   // task 2: 30 and 20: off by 1/2
  Comparison c = compare(predicted, measured, kNames, kGroups).value();
  REQUIRE(c.tasks.size() == 3);
  CHECK(c.tasks[1].measured.count == 60);
  CHECK(c.mape == Approx((0.5 + 1.0 / 3 + 0.5) / 3));
  CHECK(c.groups[0].group == "matmul");
  CHECK(c.groups[0].predicted.count == 70);
  CHECK(c.groups[0].measured.count == 100);
  // ranks predicted: 1.5, 1.5, 0 (in tasks' order), measured: 2, 1, 0; about their mean: (.5, .5, -1), (1, 0, -1)
  CHECK(c.spearman == Approx(1.5 / std::sqrt(1.5 * 2)));
  measured.program = 1;
  CHECK_FALSE(compare(predicted, measured, kNames, kGroups).ok());
}

TEST_CASE("rank correlation is one for any increasing relation and minus one for a decreasing one") {
  CHECK(spearman({1, 2, 3, 4}, {1, 4, 9, 16}) == Approx(1));
  CHECK(spearman({1, 2, 3, 4}, {8, 4, 2, 1}) == Approx(-1));
  CHECK(spearman({1, 1, 1}, {1, 2, 3}) == 0);
}
