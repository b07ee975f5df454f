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
          {{DeviceId(0), 0, {0}, {100}}, {DeviceId(0), 3, {0}, {900}}, {DeviceId(0), 3, {60}, {300}}},
          {{LinkId(3), "node0.nic -> fabric", {12.5e9}, {500}}},
          {{LinkId(3), {30}, LinkSample::kFull}, {LinkId(3), {70}, 0}}};
}

const std::vector<std::string> kNames = {"matmul a", "all_reduce \"g\"", "matmul b"};
const std::vector<std::string> kGroups = {"matmul", "all_reduce", "matmul"};

}  // namespace

TEST_CASE("a trace is the same after writing and reading") {
  Trace t = trace_from_json(trace_to_json(example()), "t.json");
  CHECK(t.program == 0xfedcba9876543210u);
  CHECK(t.source == "simulated");
  CHECK(t.spans.size() == 4);
  CHECK(t.memory[2].used.count == 300);
  CHECK(t.memory[2].category == 3);
  CHECK(t.links[0].name == "node0.nic -> fabric");
  CHECK(t.link_use[0].fraction() == 1);
  CHECK(trace_to_json(t) == trace_to_json(example()));
}

TEST_CASE("a trace of version 1, which had no links and no categories of memory, is read") {
  nlohmann::json old = nlohmann::json::parse(trace_to_json(example()));
  old["version"] = 1;
  old.erase("links");
  old.erase("link_use");
  old["memory"] = {{0, 60, 400}};  // nor categories
  Trace t = trace_from_json(old.dump(), "t.json");
  CHECK(t.spans.size() == 4);
  CHECK(t.links.empty());
  CHECK(t.memory.at(0).used.count == 400);
  CHECK(t.memory.at(0).category == MemorySample::kAll);
}

TEST_CASE("a damaged trace file is refused with the place") {
  std::string text = trace_to_json(example());
  CHECK_THROWS_WITH(trace_from_json(text.substr(0, text.size() / 2), "t.json"),
                    Contains("t.json: byte") && Contains("truncated"));
  CHECK_THROWS_WITH(trace_from_json("{}", "t.json"), "t.json: key 'format' is missing");
  CHECK_THROWS_WITH(trace_from_json("[]", "t.json"), Contains("found array"));
  CHECK_THROWS_WITH(trace_from_json("[1e999]", "t.json"), "t.json: found a number that is out of range");
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
  CHECK_THROWS_WITH(trace_from_json(with("[0,0,0,0,40]", "[3000000000,0,0,0,40]"), "t.json"),
                    Contains("spans[0]: found task 3000000000, expected 0 to 2147483647"));
  CHECK_THROWS_WITH(trace_from_json(with("[0,0,0,0,40]", "[0,-1,0,0,40]"), "t.json"),
                    Contains("spans[0]: found device -1, expected 0 to"));
  CHECK_THROWS_WITH(trace_from_json(with("[0,0,0,0,40]", "[0,0,0,0,18446744073709551615]"), "t.json"),
                    Contains("spans[0][4]: found 18446744073709551615, expected at most 9223372036854775807"));
  CHECK_THROWS_WITH(trace_from_json(with("[3,\"node0.nic", "[4294967299,\"node0.nic"), "t.json"),
                    Contains("links[0]: found link 4294967299, expected 0 to"));
  CHECK_THROWS_WITH(trace_from_json(with("[3,30,1000000000]", "[3,30,1000000001]"), "t.json"),
                    Contains("link_use[0]: use 1000000001, expected 0 to 1000000000"));
  CHECK_THROWS_WITH(trace_from_json(with("[3,\"node0.nic", "[3,7,\"node0.nic"), "t.json"),
                    Contains("links[0]: expected [link, name"));
  CHECK_THROWS_WITH(trace_from_json(with("\"version\":3", "\"version\":4"), "t.json"),
                    Contains("version: found 4, expected 1 to 3"));
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
  CHECK(counters == 4);  // two of memory, two of the link
  CHECK_THAT(text, Contains(R"("ts":0.000000,"args":{"weight":100,"activation":900}})"));
  CHECK_THAT(text, Contains(R"("ts":0.000060,"args":{"weight":100,"activation":300}})"));
  CHECK(processes == 3);  // two devices, and the links
  CHECK(arrow_ends == 2);
  CHECK_THAT(text, Contains("all_reduce \\\"g\\\""));
}

TEST_CASE("in a Perfetto export flows come in pairs inside spans, and counters go forward in time") {
  // Task 1 has a span on both devices: the arrow to it stays on device 0; that from it to task 2 too.
  Trace trace = example();
  std::vector<std::pair<TaskId, TaskId>> arrows = {{TaskId(0), TaskId(1)}, {TaskId(1), TaskId(2)}};
  const Trace* both[] = {&trace, &trace};
  nlohmann::json root = nlohmann::json::parse(traces_to_perfetto(both, {kNames, kGroups, {}, arrows}));
  std::map<std::int64_t, std::vector<nlohmann::json>> flows;
  std::map<std::string, double> counter_times;
  auto inside_a_span = [&](const nlohmann::json& flow) {
    for (const auto& e : root["traceEvents"])
      if (e["ph"] == "X" && e["pid"] == flow["pid"] && e["tid"] == flow["tid"] && e["ts"] <= flow["ts"] &&
          flow["ts"].get<double>() < e["ts"].get<double>() + e["dur"].get<double>())
        return true;
    return false;
  };
  for (const auto& e : root["traceEvents"]) {
    std::string ph = e["ph"];
    CHECK((ph == "M" || ph == "X" || ph == "C" || ph == "s" || ph == "f"));
    if (ph == "s" || ph == "f") {
      flows[e["id"]].push_back(e);
      CHECK(inside_a_span(e));
      CHECK(e["pid"].get<std::int64_t>() % 1'000'000 == 0);
    }
    if (ph != "C") continue;
    std::string counter = e["pid"].dump() + e["name"].dump();
    if (counter_times.contains(counter)) CHECK(e["ts"] > counter_times[counter]);
    counter_times[counter] = e["ts"];
  }
  CHECK(flows.size() == 4);  // two in each trace
  for (const auto& [id, ends] : flows) {
    REQUIRE(ends.size() == 2);
    CHECK(ends[0]["ph"] == "s");
    CHECK(ends[1]["ph"] == "f");
    CHECK(ends[0]["ts"] <= ends[1]["ts"]);
  }
  CHECK(counter_times.size() == 4);  // memory of device 0 and one link, in each trace
}

TEST_CASE("a device is idle when no stream runs") {
  std::vector<DeviceUse> use = device_use(example());
  REQUIRE(use.size() == 2);
  CHECK(use[0].compute.count == 40 + 30);
  CHECK(use[0].communication.count == 40);
  CHECK(use[0].idle.count == 10);
  CHECK(use[0].hidden.count == 10 + 10);  // [30, 40) and [60, 70)
  CHECK(use[1].hidden.count == 0);
  CHECK(use[1].idle.count == 60);
  CHECK(use[0].copies.count == 0);
  // Copies count where they are alone, and what does nothing is idle.
  Trace trace = example();
  trace.spans.push_back(
      {.device = DeviceId(1), .stream = 2, .start = trace.iteration - Picoseconds{7}, .end = trace.iteration});
  use = device_use(trace, 3);
  REQUIRE(use.size() == 3);
  for (const DeviceUse& u : use) CHECK(u.compute + u.communication - u.hidden + u.copies + u.idle == trace.iteration);
  CHECK(use[1].copies.count > 0);
  CHECK(use[2].idle == trace.iteration);
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
