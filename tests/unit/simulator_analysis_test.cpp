// What is said of a simulated iteration: bounds, links, collectives, what if. Tasks take their microseconds on machines
// of 1 TFLOPS (simulator_build.h); 1000 f32 take 4 us at 1 GB/s.
#include <thread>

#include <catch2/catch.hpp>

#include "core/machine/profile.h"
#include "core/models/models.h"
#include "core/plan/crossing.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "core/trace/trace_json.h"
#include "simulator/analysis/bounds.h"
#include "simulator/analysis/network_report.h"
#include "simulator/analysis/scenario.h"
#include "simulator/analysis/steady_state.h"
#include "simulator/analysis/what_if.h"
#include "simulator/cost_model.h"
#include "tests/support/paths.h"
#include "tests/support/planned.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

double microseconds(Picoseconds t) { return static_cast<double>(t.count) * 1e-6; }

// Device 0 computes 5 us, sends 4 us, and computes 1 us more beside; device 1 computes 2 us and, with what came, 3 us:
// 5 + 4 + 3 = 12 us.
Program hand_over() {
  ProgramBuilder b(2);
  TaskId first = b.compute(0, 5, {}, {b.buffer(0, 1), b.buffer(0, 1)});
  b.compute(1, 2);
  TaskId sent = b.communicate(CollectiveKind::send, {0, 1}, 1000, {first});
  b.compute(0, 1);
  b.compute(1, 3, {sent});
  return b.program;
}

double scaled(const Program& program, const std::vector<std::string>& texts) {
  std::vector<Scale> scales;
  for (const std::string& text : texts) scales.push_back(parse_scale(text));
  return microseconds(Scenario(program, all_pairs(2, 1), scales).simulate(false).iteration);
}

}  // namespace

TEST_CASE("the bounds of an iteration are what its devices, links and dependencies need each for themselves") {
  Program program = hand_over();
  Scenario scenario(program, all_pairs(2, 1));
  CHECK(microseconds(scenario.simulate(false).iteration) == 12);
  LowerBounds b = lower_bounds(scenario.prepared(), scenario.topology());
  CHECK(microseconds(b.busiest_device) == 6);      // 5 + 1
  CHECK(microseconds(b.whole_machine) == 5.5);     // (5 + 1 + 2 + 3) on two devices
  CHECK(microseconds(b.busiest_link) == 4);        // the message
  CHECK(microseconds(b.free_communication) == 8);  // 5, then 3
  CHECK(microseconds(b.longest_chain) == 12);      // 5 + 4 + 3
  CHECK(b.largest() == b.longest_chain);
  CHECK(seconds_at_peak({{DType::f32, 4e6}}, scenario.topology()).value() == Approx(2e-6));
}

TEST_CASE("devices that share units of compute are bound by these together") {
  MachineBuilder m(4);
  m.topology.physical_devices = {{2}};
  for (Device& d : m.topology.devices) d.physical = 0;
  for (int d = 1; d < 4; ++d) m.link(m.device(0), m.device(d), 1);
  ProgramBuilder b(4);
  for (int d = 0; d < 3; ++d) b.compute(d, 6);
  Scenario scenario(b.program, m.finish());
  LowerBounds bounds = lower_bounds(scenario.prepared(), scenario.topology());
  CHECK(microseconds(bounds.busiest_device) == 9);  // 18 us of work on two units
  CHECK(microseconds(bounds.whole_machine) == 9);
  CHECK(microseconds(bounds.longest_chain) == 6);
  CHECK(microseconds(scenario.simulate(false).iteration) == 9);
}

TEST_CASE(
    "communications that take no time are a bound also where devices wait for cores, and some longer because of it") {
  MachineBuilder m(3);  // the first two share a core
  for (DeviceSpec& spec : m.topology.specs) spec.kind = "cpu";
  m.topology.physical_devices = {{1}, {1}};
  for (std::size_t d = 0; d < 3; ++d) m.topology.devices[d].physical = d / 2;
  m.link(m.device(1), m.device(2), 1), m.link(m.device(0), m.device(1), 1);
  ProgramBuilder b(3);
  TaskId first = b.compute(2, 1);
  TaskId sent = b.communicate(CollectiveKind::send, {2, 1}, 250, {first});  // 1 to 2
  TaskId second = b.compute(2, 0.5);
  b.compute(1, 10, {sent});                     // ready at 2, or at 1: then the core does this first
  TaskId critical = b.compute(0, 1, {second});  // ready at 1.5
  b.compute(2, 10, {critical});
  Scenario scenario(b.program, m.finish());
  CHECK(microseconds(scenario.simulate(false).iteration) == 12.5);
  LowerBounds bounds = lower_bounds(scenario.prepared(), scenario.topology());
  CHECK(microseconds(bounds.free_communication) == 12.5);
  CHECK(microseconds(bounds.busiest_device) == 11.5);
}

TEST_CASE("a device that may use several units of compute is bound by what it takes with all of them") {
  MachineBuilder m(2);
  m.topology.physical_devices = {{4}};
  for (Device& d : m.topology.devices) d.physical = 0;
  m.link(m.device(0), m.device(1), 1);
  ProgramBuilder b(2);
  TaskId first = b.compute(0, 6);
  b.compute(0, 2, {first});
  Scenario scenario(b.program, m.finish());
  LowerBounds bounds = lower_bounds(scenario.prepared(), scenario.topology());
  CHECK(microseconds(bounds.busiest_device) == 4);  // on two of the four units
  CHECK(microseconds(bounds.longest_chain) == 4);
  CHECK(microseconds(bounds.whole_machine) == 2);
  CHECK(microseconds(scenario.simulate(false).iteration) == 4);
}

TEST_CASE("what is cut from a trace has its spans where they lie, and no empty ones") {
  Trace trace;
  trace.iteration = Picoseconds{30};
  for (auto [start, end] : {std::pair(0, 10), {5, 12}, {10, 20}, {18, 25}, {20, 30}})
    trace.spans.push_back({.task = TaskId(end), .start = Picoseconds{start}, .end = Picoseconds{end}});
  Trace part = cut(trace, Picoseconds{10}, Picoseconds{20});
  CHECK(part.iteration == Picoseconds{10});
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const Span& s : part.spans) spans.emplace_back(s.start.count, s.end.count);
  CHECK(spans == std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 2}, {0, 10}, {8, 10}});
}

TEST_CASE("no plan is faster than its bounds") {
  for (const char* machine : {"summit", "dgx-a100", "laptop"}) {
    Topology topology = load_topology(machine, {.nodes = machine == std::string("laptop") ? 1 : 2, .devices = 4});
    for (const char* strategy : {"data-parallel", "expert", "unity", "pipeline", "random"}) {
      INFO(strategy << " on " << machine);
      Program program = planned("bert-tiny", 48, strategy, topology);
      Scenario scenario(program, topology);
      LowerBounds bounds = lower_bounds(scenario.prepared(), topology);
      Picoseconds iteration = scenario.simulate(false).iteration;
      CHECK(bounds.largest().seconds() <= iteration.seconds() * (1 + 1e-9));
      CHECK(bounds.whole_machine.count > 0);
      CHECK(bounds.free_communication >= bounds.busiest_device);
    }
  }
}

TEST_CASE("a scale changes what it names: a link, the devices, the tasks of an operator") {
  Program program = hand_over();
  CHECK(scaled(program, {"link:nvlink=2"}) == 10);                // the message takes 2 us
  CHECK(scaled(program, {"device=2"}) == 8);                      // 2.5 + 4 + 1.5
  CHECK(scaled(program, {"task:zero=0.5"}) == 8);                 // the builder's tasks are zeros
  CHECK(scaled(program, {"link=2", "device.compute=2"}) == 6);    // both
  CHECK(scaled(program, {"device.memory-bandwidth=100"}) == 12);  // bound by compute
  CHECK_THROWS_WITH(scaled(program, {"task:zera=0.5"}), Contains("did you mean 'zero'?"));
  program.tasks[0].kind = TaskKind::copy;
  CHECK(scaled(program, {"task:zero=0.5"}) == 10.5);  // 5 + 4 + 1.5
  CHECK(scaled(program, {"task:copy=2"}) == 17);      // 10 + 4 + 3
}

TEST_CASE("what would help most stands first, on top of the scales that are there already") {
  Program program = hand_over();
  Topology topology = all_pairs(2, 1);
  std::vector<std::vector<Scale>> cases;
  for (const char* text : {"link=2", "device=2", "device.launch=0"}) cases.push_back({parse_scale(text)});
  std::vector<WhatIf> found = what_if(program, topology, cases);
  REQUIRE(found.size() == 3);
  CHECK(found[0].what == "device=2");
  CHECK(microseconds(found[0].iteration) == 8);
  CHECK(microseconds(found[1].iteration) == 10);
  CHECK(microseconds(found[2].iteration) == 12);
  CHECK(microseconds(what_if(program, topology, {{parse_scale("device=2"), parse_scale("link=4")}})[0].iteration) == 5);
  CHECK(usual_scales(topology).size() == 6);  // NVLink, latency, devices, compute, memory, launches
}

TEST_CASE("the busiest links say how much they are used, by which collectives") {
  MachineBuilder m(3);
  VertexId hub = m.add_switch("hub");
  m.link(m.device(0), hub, 2), m.link(m.device(1), hub, 2), m.link(m.device(2), hub, 1);
  ProgramBuilder b(3);
  b.communicate(CollectiveKind::send, {0, 2}, 1000);
  b.communicate(CollectiveKind::send, {1, 2}, 1000);
  Scenario scenario(b.program, m.finish());
  Trace trace = scenario.simulate(true).trace;
  std::vector<BusyLink> links = busiest_links(scenario.prepared(), scenario.topology(), trace, 2);
  REQUIRE(links.size() == 2);
  CHECK(links[0].name == "hub -> d2");
  CHECK(links[0].mean == Approx(1));  // 8 kB in 8 us
  CHECK(links[0].peak == 1);
  CHECK(links[0].by == std::vector<std::pair<std::string, Bytes>>{{"forward send (chain)", {8000}}});
  CHECK(links[0].like_it == 0);
  CHECK(links[1].name == "d0 -> hub");
  CHECK(links[1].like_it == 1);  // that of device 1
  CHECK(links[1].mean == Approx(0.25));
  CHECK(links[1].peak == 0.5);
}

TEST_CASE("what was measured in bf16 is bounded by no peaks of f32") {
  Topology topology = load_topology("h100", {});
  Program program = planned("mlp", 256, "data-parallel", topology);
  for (const char* precision : {"bf16", "f32"}) {
    const DeviceProfile profile =
        load_profile(std::string(UNITY_SOURCE_DIR) + "/topologies/profiles/h100-sxm5." + precision + ".yaml");
    Topology measured = topology;
    use_profile(measured, profile);
    Scenario scenario(program, measured);
    const Picoseconds iteration = scenario.simulate(false).iteration;
    const LowerBounds bounds = lower_bounds(scenario.prepared(), measured);
    CHECK(bounds.largest().seconds() <= iteration.seconds() * (1 + 1e-9));
    CHECK((bounds.whole_machine.count > 0) == (precision == std::string("f32")));
    const std::optional<double> at_peak = seconds_at_peak(executed_flops(program), measured);
    REQUIRE(at_peak.has_value() == (precision == std::string("f32")));
    if (at_peak) CHECK(*at_peak <= iteration.seconds());
  }
}

TEST_CASE("collectives are summed up by kind, devices and choice") {
  ProgramBuilder b(2);
  b.communicate(CollectiveKind::send, {0, 1}, 1000);
  b.communicate(CollectiveKind::send, {1, 0}, 3000);
  b.communicate(CollectiveKind::all_reduce, {0, 1}, 500);
  Scenario scenario(b.program, all_pairs(2, 1));
  std::vector<CollectiveSummary> s = summarise_collectives(scenario.prepared());
  REQUIRE(s.size() == 2);
  CHECK(s[0].kind == CollectiveKind::send);
  CHECK(s[0].count == 2);
  CHECK(s[0].smallest.count == 4000);
  CHECK(s[0].largest.count == 12000);
  CHECK(microseconds(s[0].idle) == 16);
  CHECK(s[0].alternatives.front().time == Picoseconds{12'000'000});
  CHECK(s[1].algorithm == CollectiveAlgorithm::ring);
  CHECK(s[1].participants == 2);
}

TEST_CASE("timelines draw dependencies between streams and devices, not those along a stream") {
  ProgramBuilder b(2);
  TaskId first = b.compute(0, 5);
  TaskId second = b.compute(0, 5, {first});
  TaskId sent = b.communicate(CollectiveKind::send, {0, 1}, 1000, {second});
  TaskId reduced = b.communicate(CollectiveKind::all_reduce, {0, 1}, 1000, {sent});
  TaskId last = b.compute(1, 3, {reduced});
  CHECK(crossing_dependencies(b.program) == std::vector<std::pair<TaskId, TaskId>>{{second, sent}, {reduced, last}});
}

TEST_CASE("threads that share choices of collectives write the same traces, byte for byte") {
  Topology topology = load_topology("dgx-a100", {.nodes = 2});
  Program program = planned("bert-tiny", 48, "data-parallel", topology);
  CollectiveCache cache(topology);
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back(
        [&, i] { texts[i] = trace_to_json(simulate(program, cache, {.fold = i % 2 == 1, .links = true}).trace); });
  for (std::thread& thread : threads) thread.join();
  std::string alone = trace_to_json(simulate(program, topology, {.links = true}).trace);
  for (const std::string& text : texts) CHECK(text == alone);
}

TEST_CASE("no chain of dependencies takes longer than the iteration, where ways have slow links or slow starts") {
  // From 0 to 1 few bytes a second, to 2 a long latency: neither flow has both.
  MachineBuilder m(3);
  m.link(m.device(0), m.device(1), 1e-3, 1);
  m.link(m.device(0), m.device(2), 100, 20'000);
  m.link(m.device(1), m.device(2), 100, 20'000);
  ProgramBuilder b(3);
  b.all_to_all({0, 1, 2}, 1'000);
  Scenario scenario(b.program, m.finish());
  LowerBounds bounds = lower_bounds(scenario.prepared(), scenario.topology());
  CHECK(bounds.longest_chain <= scenario.simulate(false).iteration);
  CHECK(bounds.longest_chain.seconds() >= 20e-3);
}
