// What the links carry in a simulation.
#include <catch2/catch.hpp>

#include "core/trace/trace_json.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

std::vector<std::tuple<int, double, double>> samples(const Trace& trace) {  // link, microseconds, use
  std::vector<std::tuple<int, double, double>> result;
  for (const LinkSample& s : trace.link_use)
    result.emplace_back(s.link.value, static_cast<double>(s.time.count) * 1e-6, s.fraction());
  return result;
}

// Devices 0 and 1 behind a switch with 2 GB/s each, device 2 with 1 GB/s: links 0 to 5, up and down by turns.
Topology star() {
  MachineBuilder m(3);
  VertexId hub = m.add_switch("hub");
  m.link(m.device(0), hub, 2), m.link(m.device(1), hub, 2), m.link(m.device(2), hub, 1);
  return m.finish();
}

}  // namespace

TEST_CASE("a recorded simulation says what each link carried, and how much of it was in use when") {
  ProgramBuilder b(3);
  b.communicate(CollectiveKind::send, {0, 2}, 1000);  // 4 kB at the 1 GB/s of the way down: 4 us
  Trace trace = simulate(b.program, star(), {.links = true}).trace;
  REQUIRE(trace.links.size() == 2);
  CHECK(trace.links[0].name == "d0 -> hub");
  CHECK(trace.links[1].name == "hub -> d2");
  CHECK(trace.links[0].bytes.count == 4000);
  using Samples = std::vector<std::tuple<int, double, double>>;
  CHECK(samples(trace) == Samples{{0, 0, 0.5}, {5, 0, 1}, {0, 4, 0}, {5, 4, 0}});
}

TEST_CASE("two flows fill the link that they share, and one of them alone half of its own") {
  ProgramBuilder b(3);
  b.communicate(CollectiveKind::send, {0, 2}, 1000);  // half of 1 GB/s until 8 us
  b.communicate(CollectiveKind::send, {1, 2}, 1000);  // waits for device 2's stream: 4 us to 8 us at 1 GB/s
  Trace trace = simulate(b.program, star(), {.links = true}).trace;
  REQUIRE(trace.links.size() == 3);
  CHECK(trace.links[2].bytes.count == 8000);
  using Samples = std::vector<std::tuple<int, double, double>>;
  CHECK(samples(trace) == Samples{{0, 0, 0.5}, {5, 0, 1}, {0, 4, 0}, {2, 4, 0.5}, {2, 8, 0}, {5, 8, 0}});
}

TEST_CASE("the bytes of a link are the integral of its use") {
  Topology topology = load_topology("summit", {.nodes = 2});
  ProgramBuilder b(12);
  b.communicate(CollectiveKind::all_reduce, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 1'000'000);
  b.communicate(CollectiveKind::send, {0, 7}, 500'000);
  Trace trace = simulate(b.program, topology, {.links = true}).trace;
  REQUIRE(!trace.links.empty());
  for (const LinkUsage& link : trace.links) {
    double bytes = 0, use = 0;
    Picoseconds since;
    for (const LinkSample& s : trace.link_use) {
      if (s.link != link.link) continue;
      bytes += use * (s.time - since).seconds() * link.bandwidth.rate;
      use = s.fraction(), since = s.time;
    }
    CHECK(use == 0);
    CHECK(bytes == Approx(static_cast<double>(link.bytes.count)).epsilon(1e-6));
  }
}

TEST_CASE("folded, all links of a class are listed, with the use that they have on the whole machine") {
  Topology topology = load_topology("dgx-a100", {.nodes = 2});
  ProgramBuilder b(16);
  std::vector<int> all;
  for (int d = 0; d < 16; ++d) all.push_back(d);
  std::vector<TaskId> done;
  for (int d = 0; d < 16; ++d) done.push_back(b.compute(d, 10));
  b.communicate(CollectiveKind::all_reduce, all, 10'000'000, done);
  Trace whole = simulate(b.program, topology, {.links = true}).trace;
  Trace folded = simulate(b.program, topology, {.fold = true, .links = true}).trace;
  REQUIRE(whole.links.size() >= 32);  // up and down of each device
  CHECK(trace_to_json(folded) == trace_to_json(whole));
}

TEST_CASE("links are not recorded unless asked for") {
  ProgramBuilder b(3);
  b.communicate(CollectiveKind::send, {0, 2}, 1000);
  CHECK(simulate(b.program, star()).trace.links.empty());
  CHECK(simulate(b.program, star(), {.trace = false, .links = true}).trace.links.empty());
}
