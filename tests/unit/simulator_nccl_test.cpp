// Protocols of a library of collectives, with NCCL's figures.

#include <set>
#include <thread>

#include <catch2/catch.hpp>

#include "core/machine/collectives.h"
#include "simulator/collectives/choice.h"
#include "simulator/collectives/direct_rings.h"
#include "simulator/collectives/running.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

// Nodes of GPUs on a switch (450 GB/s), each with a network port (50 GB/s), as in a DGX H100.
Topology dgx(int nodes, const std::string& device, double gigabytes_per_second = 450, int gpus = 8) {
  MachineBuilder m(nodes * gpus);
  VertexId network = m.add_switch("network");
  for (int n = 0; n < nodes; ++n) {
    VertexId s = m.add_switch("nvswitch");
    for (int d = n * gpus; d < (n + 1) * gpus; ++d) {
      m.link(m.device(d), s, gigabytes_per_second);
      VertexId nic = m.add_switch("nic");
      m.link(m.device(d), nic, 64);
      m.link(nic, network, 50);
      for (int back : {1, 2})
        m.topology.links[m.topology.links.size() - static_cast<std::size_t>(back)].kind = LinkKind::infiniband;
    }
  }
  m.topology.levels = {{"node", nodes}, {"gpu", gpus}};
  m.topology.collectives = load_collectives(*find_collectives("nccl", ""), device);
  return m.finish();
}

std::shared_ptr<const CollectiveChoice> choose(const Topology& t, const CollectiveCache& cache, std::int64_t bytes,
                                               const CollectiveOptions& options = {}) {
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < t.device_count(); ++d) all.emplace_back(static_cast<std::int64_t>(d));
  return cache.choose(CollectiveKind::all_reduce, all, {bytes}, options);
}

double microseconds(const Topology& t, std::int64_t bytes, CollectiveAlgorithm algorithm, const std::string& protocol) {
  return choose(t, CollectiveCache(t), bytes, {.algorithm = algorithm, .protocol = protocol})->predicted().seconds() *
         1e6;
}

}  // namespace

TEST_CASE("NCCL's latencies of a small all-reduce on eight GPUs: ring 6.6 + 14 x 0.6, tree 6.8 + 2 x 7 x 0.6 us") {
  Topology t = dgx(1, "H100-SXM5");
  CHECK(microseconds(t, 8, CollectiveAlgorithm::ring, "LL") == Approx(15.0).epsilon(1e-3));
  CHECK(microseconds(t, 8, CollectiveAlgorithm::tree, "LL") == Approx(15.2).epsilon(1e-3));
  CHECK(microseconds(t, 8, CollectiveAlgorithm::ring, "Simple") == Approx(8.4 + 14 * 3.4).epsilon(1e-3));
  CHECK(microseconds(t, 8, CollectiveAlgorithm::in_switch, "Simple") == Approx(25).epsilon(1e-3));
}

TEST_CASE("on two nodes, hops inside them take at least the network's overhead, trees two hops between them") {
  // Tree LL128: base 14, chains of 7 hops up and down at 1.25 us, one hop of 8.5 us up and one down.
  Topology t = dgx(2, "H100-SXM5");
  CHECK(microseconds(t, 8, CollectiveAlgorithm::tree, "LL128") == Approx(14 + 14 * 1.25 + 2 * 8.5).epsilon(1e-3));
  // Ring LL: 30 hops, of which at most 4 between nodes (2.7 us), the others at 1 us in place of 0.6.
  CHECK(microseconds(t, 8, CollectiveAlgorithm::ring, "LL") == Approx(6.6 + 4 * 2.7 + 26 * 1.0).epsilon(1e-3));
}

TEST_CASE("a protocol's efficiency and the links' stretch the bytes, and its limits hold") {
  Topology t = dgx(1, "H100-SXM5");
  const std::int64_t size = 8'000'000'000;
  double bytes = 2 * 7 / 8.0 * static_cast<double>(size);
  CHECK(microseconds(t, size, CollectiveAlgorithm::ring, "Simple") ==
        Approx(8.4 + 14 * 3.4 + bytes / (0.824 * 450e9) * 1e6).epsilon(1e-6));
  CHECK(microseconds(t, size, CollectiveAlgorithm::ring, "LL128") ==
        Approx(14 + 14 * 1.9 + bytes / (0.92 * 0.824 * 450e9) * 1e6).epsilon(1e-6));
  // 0.5 x 371 GB/s are more than LL's limit of 141 GB/s.
  CHECK(microseconds(t, size, CollectiveAlgorithm::ring, "LL") == Approx(15 + bytes / 141e9 * 1e6).epsilon(1e-6));
  // What is predicted is what is simulated.
  ProgramBuilder b(8);
  b.communicate(CollectiveKind::all_reduce, {0, 1, 2, 3, 4, 5, 6, 7}, size / 4);
  for (std::string protocol : {"LL", "LL128", "Simple"})
    CHECK(simulate(b.program, t, {.collectives = {CollectiveAlgorithm::ring, protocol}}).iteration.seconds() * 1e6 ==
          Approx(microseconds(t, size, CollectiveAlgorithm::ring, protocol)).epsilon(1e-9));
}

TEST_CASE("small data go by LL on a ring, large ones through the switch where there is one that adds up") {
  Topology hopper = dgx(1, "H100-SXM5"), ampere = dgx(1, "A100-SXM4-80GB", 300);
  CollectiveCache with(hopper), without(ampere);
  CHECK(choose(hopper, with, 1000)->alternatives[0].protocol == "LL");
  CHECK(choose(hopper, with, 1000)->shape->algorithm == CollectiveAlgorithm::ring);
  auto large = choose(hopper, with, 1'000'000'000);
  CHECK(large->shape->algorithm == CollectiveAlgorithm::in_switch);
  CHECK(large->reason == ChoiceReason::cheapest);
  CHECK(large->alternatives.size() == 7);  // ring and tree in three protocols, and the switch
  CHECK(std::is_sorted(large->alternatives.begin(), large->alternatives.end(),
                       [](const auto& a, const auto& b) { return a.time < b.time; }));
  CHECK(choose(ampere, without, 1'000'000'000)->shape->algorithm == CollectiveAlgorithm::ring);
  CHECK(choose(ampere, without, 1'000'000'000)->alternatives[0].protocol == "Simple");
}

TEST_CASE("many small steps make trees cheaper than rings on many nodes") {
  Topology t = dgx(16, "A100-SXM4-80GB", 300);
  CHECK(choose(t, CollectiveCache(t), 1'000'000)->shape->algorithm == CollectiveAlgorithm::tree);
}

TEST_CASE("rings of several channels use the network ports of all devices") {
  // Two nodes of eight with a port of 50 GB/s each, of which 0.94 are usable: 376 GB/s in all, above the 371 of the
  // NVLinks.
  Topology t = dgx(2, "H100-SXM5");
  const std::int64_t size = 16'000'000'000;
  double bytes = 2 * 15 / 16.0 * static_cast<double>(size);
  CHECK(microseconds(t, size, CollectiveAlgorithm::ring, "Simple") ==
        Approx(bytes / (0.824 * 450e9) * 1e6).epsilon(2e-2));
}

TEST_CASE("in a DGX-1's cube mesh six rings use all NVLinks") {
  // Six NVLinks of 25 GB/s for each GPU, of which 0.8 are usable: 120 GB/s of bus bandwidth.
  Topology t = load_topology("dgx-v100");
  const std::int64_t size = 8'000'000'000;
  CHECK(microseconds(t, size, CollectiveAlgorithm::ring, "Simple") ==
        Approx(8.4 + 14 * 3.4 + 2 * 7 / 8.0 * static_cast<double>(size) / 120e9 * 1e6).epsilon(1e-6));
  std::vector<DeviceId> group;
  for (int d = 0; d < 8; ++d) group.emplace_back(d);
  std::vector<std::vector<DeviceId>> rings = direct_rings(t, group);
  CHECK(rings.size() == 6);
  for (const auto& ring : rings) {
    CHECK(std::set<DeviceId>(ring.begin(), ring.end()).size() == 8);
    for (std::size_t i = 0; i < 8; ++i) CHECK(t.route(ring[i], ring[(i + 1) % 8]).size() == 1);
  }
  CHECK(direct_rings(load_topology("dgx-h100"), group).empty());  // a switch, no direct links
}

TEST_CASE("between 1 and 2 MiB, eight H100 turn from rings in LL to the switch, as NCCL reports (nccl-tests #309)") {
  Topology t = dgx(1, "H100-SXM5");
  CollectiveCache cache(t);
  auto algorithm = [&](std::int64_t bytes) { return choose(t, cache, bytes)->shape->algorithm; };
  for (std::int64_t bytes = 8; bytes <= 1 << 20; bytes *= 2) CHECK(algorithm(bytes) == CollectiveAlgorithm::ring);
  for (std::int64_t bytes = 1 << 21; bytes <= 1ll << 34; bytes *= 2)
    CHECK(algorithm(bytes) == CollectiveAlgorithm::in_switch);
}

TEST_CASE("threads that share a cache choose what one alone chooses") {
  Topology t = dgx(4, "H100-SXM5");
  CollectiveCache alone(t), shared(t);
  constexpr int kSizes = 40;
  std::vector<std::vector<Picoseconds>> found(4);
  std::vector<std::thread> threads;
  for (auto& times : found)
    threads.emplace_back([&] {
      for (int i = 0; i < kSizes; ++i) times.push_back(choose(t, shared, 1000ll << (i % 20))->predicted());
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& times : found)
    for (int i = 0; i < kSizes; ++i)
      CHECK(times[static_cast<std::size_t>(i)] == choose(t, alone, 1000ll << (i % 20))->predicted());
}

TEST_CASE("step by step, large data take what their flows take; of small ones, channels hide some of the latency") {
  using enum CollectiveAlgorithm;
  for (int nodes : {1, 2, 4}) {
    Topology t = dgx(nodes, "H100-SXM5");
    CollectiveCache cache(t);
    for (CollectiveAlgorithm algorithm : {ring, tree, in_switch, hierarchical})
      for (std::int64_t bytes : {10'000'000ll, 10'000'000'000ll}) {
        CollectiveOptions options{.algorithm = algorithm, .protocol = "Simple"};
        auto choice = choose(t, cache, bytes, options);
        INFO(to_string(choice->shape->algorithm) << " of " << bytes << " bytes on " << nodes << " nodes");
        double flows = simulate_alone(t, choice, options, false).time.seconds();
        double steps = simulate_alone(t, choice, options, true).time.seconds();
        CHECK(choice->predicted().seconds() == Approx(flows).epsilon(1e-7));
        if (bytes > 1'000'000'000) CHECK(steps == Approx(flows).epsilon(0.05));
        CHECK(steps <= 1.05 * flows);
        double latency = 0, moving = 0;
        for (const CollectiveStage& stage : choice->shape->stages) {
          latency += stage.latency.seconds();
          moving += stage.seconds * static_cast<double>(bytes);
        }
        CHECK(steps >= 0.99 * std::max(latency, moving));
      }
  }
}

TEST_CASE("the choice of a task can be read from the simulation") {
  Topology t = dgx(1, "H100-SXM5");
  ProgramBuilder b(8);
  b.compute(0, 1);
  TaskId task = b.communicate(CollectiveKind::all_reduce, {0, 1, 2, 3, 4, 5, 6, 7}, 250'000'000);
  SimulationResult r = simulate(b.program, t);
  REQUIRE(r.collectives.size() == 1);
  CHECK(r.collectives[0].task == task);
  CHECK(r.collectives[0].reason == ChoiceReason::cheapest);
  CHECK(r.collectives[0].alternatives[0].algorithm == CollectiveAlgorithm::in_switch);
  CHECK(r.collectives[0].alternatives[0].time.seconds() == Approx(r.iteration.seconds()).epsilon(0.05));
}
