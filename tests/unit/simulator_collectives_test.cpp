#include <catch2/catch.hpp>

#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

std::vector<int> first(int n) {
  std::vector<int> devices;
  for (int i = 0; i < n; ++i) devices.push_back(i);
  return devices;
}

std::vector<DeviceId> ids(const std::vector<int>& devices) {
  std::vector<DeviceId> result;
  for (int d : devices) result.push_back(DeviceId(d));
  return result;
}

double seconds(const Topology& t, CollectiveKind kind, const std::vector<int>& devices, std::int64_t elements,
               RingModel ring = RingModel::lockstep) {
  ProgramBuilder b(static_cast<int>(t.device_count()));
  b.communicate(kind, devices, elements);
  return simulate(b.program, t, {.ring = ring}).iteration.seconds();
}

constexpr double kAlpha = 5e-6, kBandwidth = 10e9;

}  // namespace

TEST_CASE("ring collectives on an idle uniform machine take the closed form, in lockstep and step by step") {
  const std::int64_t elements = 27'720 * 100;  // divisible by 2 to 12
  const double size = 4.0 * elements;
  for (int n = 2; n <= 12; ++n) {
    for (const Topology& t :
         {all_pairs(n, kBandwidth * 1e-9, kAlpha * 1e6), ring_machine(n, kBandwidth * 1e-9, kAlpha * 1e6)}) {
      double around = (n - 1) * kAlpha + (n - 1.0) / n * size / kBandwidth;
      for (RingModel ring : {RingModel::lockstep, RingModel::steps}) {
        INFO(n << " devices");
        CHECK(seconds(t, CollectiveKind::all_reduce, first(n), elements, ring) == Approx(2 * around).epsilon(1e-9));
        CHECK(seconds(t, CollectiveKind::all_gather, first(n), elements, ring) == Approx(around).epsilon(1e-9));
        CHECK(seconds(t, CollectiveKind::reduce_scatter, first(n), elements, ring) == Approx(around).epsilon(1e-9));
      }
      SimulatedCostModel cost(t);
      CHECK(cost.collective_time(CollectiveKind::all_reduce, ids(first(n)), {static_cast<std::int64_t>(size)})
                .seconds() == Approx(2 * around).epsilon(1e-9));
    }
  }
}

TEST_CASE("send, broadcast and reduce take all latencies of their chain and the bytes once") {
  Topology t = ring_machine(5, 10, 5);
  CHECK(seconds(t, CollectiveKind::send, {0, 1}, 250'000) == Approx(5e-6 + 1e6 / 10e9));
  CHECK(seconds(t, CollectiveKind::broadcast, {0, 1, 2, 3}, 250'000) == Approx(3 * 5e-6 + 1e6 / 10e9));
  CHECK(seconds(t, CollectiveKind::reduce, {0, 1, 2, 3}, 250'000) == Approx(3 * 5e-6 + 1e6 / 10e9));
}

TEST_CASE("an all-to-all on all pairs of links moves each exchange alone") {
  Topology t = all_pairs(4, 10, 5);
  ProgramBuilder b(4);
  b.all_to_all({0, 1, 2, 3}, 250'000);
  CHECK(simulate(b.program, t).iteration.seconds() == Approx(5e-6 + 1e6 / 10e9));
}

TEST_CASE("an all-to-all through a switch is bound by what each device sends") {
  MachineBuilder m(4);
  VertexId s = m.add_switch("s");
  for (int d = 0; d < 4; ++d) m.link(m.device(d), s, 10);
  Topology t = m.finish();
  ProgramBuilder b(4);
  b.all_to_all({0, 1, 2, 3}, 250'000);  // three exchanges of 1 MB leave each device
  CHECK(simulate(b.program, t).iteration.seconds() == Approx(3e6 / 10e9));
  // 16 equal parts of 1 MB, of which 4 stay at home
  CHECK(SimulatedCostModel(t).collective_time(CollectiveKind::all_to_all, ids({0, 1, 2, 3}), {16'000'000}).seconds() ==
        Approx(3e6 / 10e9));
}

TEST_CASE("a ring whose edges share a link gets its part of it") {
  // 0 - 1 - 2 - 3 in a row: the edge from 3 back to 0 goes over all links, but in the other direction, so nothing is
  // shared; the ring 0, 2 over a row of four has the edges 0-1-2 and 2-1-0.
  MachineBuilder row(4);
  for (int d = 0; d < 3; ++d) row.link(row.device(d), row.device(d + 1), 10);
  Topology t = row.finish();
  CHECK(seconds(t, CollectiveKind::all_reduce, {0, 2}, 250'000) == Approx(1e6 / 10e9));
  CHECK(seconds(t, CollectiveKind::all_reduce, {0, 1, 2, 3}, 250'000) == Approx(2 * 0.75 * 1e6 / 10e9));
  // two left, two right of one link, numbered so that the ring 0-1-2-3 crosses it four times, twice in each direction
  MachineBuilder m(4);
  VertexId left = m.add_switch("left"), right = m.add_switch("right");
  m.link(m.device(0), left, 100);
  m.link(m.device(2), left, 100);
  m.link(m.device(1), right, 100);
  m.link(m.device(3), right, 100);
  m.link(left, right, 10);
  CHECK(seconds(m.finish(), CollectiveKind::all_reduce, {0, 1, 2, 3}, 250'000) == Approx(2 * 0.75 * 1e6 / 5e9));
}

TEST_CASE("data parallelism over pairs of GPUs on two nodes shares the network, over all GPUs it does not") {
  Topology t = load_topology("summit", {.nodes = 2});
  const std::int64_t elements = 3'000'000;
  const double size = 4.0 * elements;
  // One ring over twelve: the narrowest link is PCIe between host and NIC, 16 GB/s; two edges of six hops cross nodes
  // (4 us each), two each of three hops cross sockets (1.5 us each) and eight are NVLinks (1.9 us): 26.2 us once around
  // the twelve edges; a piece goes twice around but for two consecutive edges, at least 1.5 + 1.9 us.
  CHECK(seconds(t, CollectiveKind::all_reduce, first(12), elements) ==
        Approx(2 * 26.2e-6 - 3.4e-6 + 2 * 11.0 / 12 * size / 16e9).epsilon(1e-9));
  // Six rings over pairs at once: each direction of the NIC port, 25 GB/s, carries six flows.
  ProgramBuilder b(12);
  for (int g = 0; g < 6; ++g) b.communicate(CollectiveKind::all_reduce, {g, g + 6}, elements);
  CHECK(simulate(b.program, t).iteration.seconds() == Approx(2 * 4e-6 + size / (25e9 / 6)).epsilon(1e-9));
}
