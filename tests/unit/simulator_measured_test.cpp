// The simulator with measured collectives.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/machine/profile.h"
#include "core/plan/collective_key.h"
#include "simulator/analysis/what_if.h"
#include "simulator/collectives/measured.h"
#include "simulator/collectives/running.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

double microseconds(Picoseconds t) { return static_cast<double>(t.count) * 1e-6; }

using Times = std::map<std::string, std::vector<ProfilePoint>>;

void use_times(Topology& topology, const Times& times, const std::string& comm = "nccl") {
  DeviceProfile profile;
  profile.collectives = collectives_of(topology, comm, 2);
  profile.collectives->times = times;
  use_profile(topology, profile);
}

// Three devices on a switch, by links of 1 GB/s: 4000 bytes take 4 us.
Topology star() {
  MachineBuilder m(3);
  VertexId middle = m.add_switch("switch");
  for (int d = 0; d < 3; ++d) m.link(m.device(d), middle, 1);
  return m.finish();
}

// Devices 0 and 1 on one side of a link of 1 GB/s, 2 and 3 on the other.
Topology bus(double microseconds_of_latency = 0) {
  MachineBuilder m(4);
  VertexId left = m.add_switch("left"), right = m.add_switch("right");
  for (int d : {0, 1}) m.link(m.device(d), left, 100);
  for (int d : {2, 3}) m.link(m.device(d), right, 100);
  m.link(left, right, 1, microseconds_of_latency);
  return m.finish();
}

Picoseconds time_of(const Topology& topology, const Program& program) { return simulate(program, topology).iteration; }

Program send(int from, int to, std::int64_t elements) {
  ProgramBuilder b(3);
  b.communicate(CollectiveKind::send, {from, to}, elements);
  return b.program;
}

}  // namespace

TEST_CASE("a collective alone takes its measured time, and counts as profiled") {
  Topology t = star();
  use_times(t, {{"send of 2 device", {{4000, 6e-6, 6e-6}}}});
  SimulationResult r = simulate(send(0, 1, 1000), t);
  CHECK(microseconds(r.iteration) == Approx(6));
  CHECK(r.profiled_tasks == 1);
  CHECK(r.estimated_tasks == 0);
  REQUIRE(r.collectives.size() == 1);
  CHECK(r.collectives[0].reason == ChoiceReason::measured);
  CHECK(microseconds(r.collectives[0].alternatives[0].time) == Approx(6));
}

TEST_CASE("between sizes times follow a power law, below the first as there, above the last in proportion") {
  Topology t = star();
  use_times(t, {{"send of 2 device", {{1000, 2e-6, 2e-6}, {100'000, 20e-6, 20e-6}}}});
  CHECK(microseconds(time_of(t, send(0, 1, 25))) == Approx(2));
  CHECK(microseconds(time_of(t, send(0, 1, 2500))) == Approx(6.3246).epsilon(1e-4));  // 10 kB: sqrt(2 x 20)
  CHECK(microseconds(time_of(t, send(0, 1, 50'000))) == Approx(40));
}

TEST_CASE("what was not measured takes what the links say") {
  Topology t = star();
  use_times(t, {{"send of 2 device", {{4000, 6e-6, 6e-6}}}, {"broadcast of 2 device", {{4000, 9e-6, 9e-6}}}});
  ProgramBuilder b(3);
  b.communicate(CollectiveKind::broadcast, {0, 1, 2}, 1000);
  SimulationResult r = simulate(b.program, t);
  CHECK(microseconds(r.iteration) == Approx(4));  // a chain
  CHECK(r.estimated_tasks == 1);
}

TEST_CASE("two that meet on a link take twice their measured times") {
  ProgramBuilder b(4);
  b.communicate(CollectiveKind::send, {0, 2}, 1000);
  b.communicate(CollectiveKind::send, {1, 3}, 1000);
  for (double measured : {6.0, 2.0}) {
    Topology t = bus();
    use_times(t, {{"send of 2 device", {{4000, measured * 1e-6, measured * 1e-6}}}});
    CHECK(microseconds(time_of(t, b.program)) == Approx(2 * measured));
  }
}

TEST_CASE("a measured one that is slower than its links keeps them busy for longer") {
  // 4000 bytes, measured 6 us, count as 6000, beside 4000 that count as such. Half
  // of the link each: these end at 8 us; then the 2000 that are left take 2 us.
  Topology t = bus();
  use_times(t, {{"send of 2 device", {{4000, 6e-6, 6e-6}}}});
  ProgramBuilder b(4);
  TaskId slow = b.communicate(CollectiveKind::send, {0, 2}, 1000);
  TaskId other = b.communicate(CollectiveKind::broadcast, {1, 3}, 1000);
  SimulationResult r = simulate(b.program, t);
  for (const Span& s : r.trace.spans) {
    if (s.task == other) CHECK(microseconds(s.end) == Approx(8));
    if (s.task == slow) CHECK(microseconds(s.end) == Approx(10));
  }
}

TEST_CASE("latency and bytes are stretched alike") {
  // 2 us of latency and 4 us of bytes, measured 3 us: half of each. Two on one link: 1 + 2 x 2 us.
  Topology t = bus(2);
  ProgramBuilder b(4);
  b.communicate(CollectiveKind::send, {0, 2}, 1000);
  CHECK(microseconds(time_of(t, b.program)) == Approx(6));
  use_times(t, {{"send of 2 device", {{4000, 3e-6, 3e-6}}}});
  CHECK(microseconds(time_of(t, b.program)) == Approx(3));
  b.communicate(CollectiveKind::send, {1, 3}, 1000);
  CHECK(microseconds(time_of(t, b.program)) == Approx(5));
}

TEST_CASE("every kind on every group of a cluster takes its measured time, of many flows and stages, too") {
  for (const char* name : {"dgx-a100", "summit", "dgx-v100", "fat-tree"}) {
    Topology bare = load_topology(name, {.nodes = 2}), t = bare;
    std::vector<std::vector<DeviceId>> groups;
    int last = static_cast<int>(bare.device_count()) - 1;
    groups.push_back({DeviceId(0), DeviceId(1)});
    groups.push_back({DeviceId(0), DeviceId(last)});
    groups.emplace_back();
    for (int d = 0; d <= last; ++d) groups.back().emplace_back(d);
    for (CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_reduce,
                                CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
      for (const std::vector<DeviceId>& group : groups) {
        INFO(to_string(kind) << " on " << group.size() << " devices of " << name);
        Bytes bytes{1'000'000};
        double model = CollectiveCache(bare).choose(kind, group, bytes)->predicted().seconds();
        for (double factor : {0.5, 3.0}) {
          double measured = factor * model;
          use_times(t, {{collective_name(kind, group, t), {{1e6, measured, measured}}}});
          CollectiveCache cache(t);
          auto choice = cache.choose(kind, group, bytes);
          CHECK(choice->reason == ChoiceReason::measured);
          CHECK(choice->predicted().seconds() == Approx(measured));
          CHECK(simulate_alone(t, choice, {}, false).time.seconds() == Approx(measured).epsilon(1e-6));
          // What is asked for takes what the links say of it.
          CollectiveOptions asked;
          asked.algorithm = choice->shape->algorithm;
          CHECK(cache.choose(kind, group, bytes, asked)->reason != ChoiceReason::measured);
        }
      }
  }
}

TEST_CASE("step by step a measured ring takes its measured time") {
  Topology t = load_topology("fat-tree", {.nodes = 2}), bare = t;
  std::vector<DeviceId> group = {DeviceId(0), DeviceId(static_cast<std::int64_t>(t.device_count()) - 1)};
  double model = CollectiveCache(bare).choose(CollectiveKind::all_reduce, group, {1 << 20})->predicted().seconds();
  use_times(t, {{collective_name(CollectiveKind::all_reduce, group, t), {{1 << 20, 2 * model, 2 * model}}}});
  CollectiveCache cache(t);
  auto choice = cache.choose(CollectiveKind::all_reduce, group, {1 << 20});
  double steps =
      simulate_alone(bare, CollectiveCache(bare).choose(CollectiveKind::all_reduce, group, {1 << 20}), {}, true)
          .time.seconds();
  CHECK(simulate_alone(t, choice, {}, true).time.seconds() == Approx(2 * steps).epsilon(1e-6));
}

TEST_CASE("the exchanges of an all-to-all count with how many pairs there are") {
  Topology t = all_pairs(3, 1);
  ProgramBuilder b(3);
  b.all_to_all({0, 1, 2}, 1000);
  CollectiveKey key = collective_key(b.program.communications[0], t);
  CHECK(key.name == "all_to_all of 3 device");
  CHECK(key.bytes == 6 * 4000);
  use_times(t, {{key.name, {{24000, 30e-6, 30e-6}}}, {"all_to_all of 3 device, 5 of 6 pairs", {{20000, 7e-6, 7e-6}}}});
  CHECK(microseconds(time_of(t, b.program)) == Approx(30));
  b.program.communications[0].exchanges.pop_back();
  CHECK(collective_key(b.program.communications[0], t).name == "all_to_all of 3 device, 5 of 6 pairs");
  CHECK(microseconds(time_of(t, b.program)) == Approx(7));
}

TEST_CASE("among devices of one machine measured collectives are work of its cores; those of processes their own") {
  ProgramBuilder b(2);
  b.communicate(CollectiveKind::all_reduce, {0, 1}, 1000);
  MachineBuilder m(2);
  m.topology.physical_devices = {{2}};
  for (Device& d : m.topology.devices) d.physical = 0;
  m.link(m.device(0), m.device(1), 1);
  Topology t = m.finish();
  auto predicted = [&](const std::string& comm, bool measured) {
    DeviceProfile profile;
    ProfileSection section;
    section.curves["all_reduce of 2"] = {{4000, 6e-6, 6e-6}};  // between threads
    profile.sections[1] = section;
    profile.collectives = collectives_of(t, comm, comm == "mpi" ? 2 : 1);
    if (measured) profile.collectives->put("all_reduce of 2 device", {4000, 9e-6, 9e-6});
    use_profile(t, profile);
    SimulationResult r = simulate(b.program, t);
    CHECK(r.profiled_tasks == (measured || comm == "threads" ? 1 : 0));
    return microseconds(r.iteration);
  };
  CHECK(predicted("threads", true) == Approx(9));
  CHECK(predicted("threads", false) == Approx(6));
  CHECK(predicted("mpi", true) == Approx(9));
  CHECK(predicted("mpi", false) == Approx(4));  // a ring: 2 x 1/2 x 4000 bytes by the link
}

TEST_CASE("the search's cost of a collective is the measured time") {
  Topology t = star();
  use_times(t, {{"all_reduce of 3 device", {{6000, 11e-6, 11e-6}}}});
  SimulatedCostModel cost(t);
  std::vector<DeviceId> all = {DeviceId(0), DeviceId(1), DeviceId(2)};
  CHECK(microseconds(cost.collective_time(CollectiveKind::all_reduce, all, {6000})) == Approx(11));
  CHECK(microseconds(cost.collective_time(CollectiveKind::all_gather, all, {6000})) == Approx(4));  // 2/3 of 6000 bytes
}

TEST_CASE("what if links were faster is not asked where collectives are measured") {
  Topology t = star();
  auto links = [](const std::vector<Scale>& scales) {
    return std::count_if(scales.begin(), scales.end(), [](const Scale& s) { return s.kind == Scale::Kind::link; });
  };
  CHECK(links(usual_scales(t)) == 2);
  use_times(t, {});
  CHECK(links(usual_scales(t)) == 0);
  CHECK_THROWS_WITH(apply_scales({parse_scale("link.latency=0")}, t), Catch::Contains("collectives are measured"));
}

TEST_CASE("a device file's collectives count on their own topology only") {
  Topology t = star();
  DeviceProfile profile;
  profile.collectives = collectives_of(t, "nccl", 1);
  profile.collectives->put("send of 2 device", {4000, 6e-6, 6e-6});
  for (const char* name : {"test", "another"}) {
    t.name = name;
    for (DeviceSpec& spec : t.specs) spec.profile = std::make_shared<DeviceProfile>(profile);
    CHECK(microseconds(time_of(t, send(0, 1, 1000))) == Approx(t.name == "test" ? 6 : 4));
  }
}
