#include <catch2/catch.hpp>

#include "core/machine/topology.h"
#include "core/plan/collective_algorithms.h"
#include "simulator/collectives/choice.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

constexpr CollectiveKind kAllReduce = CollectiveKind::all_reduce, kReduce = CollectiveKind::reduce,
                         kBroadcast = CollectiveKind::broadcast;

std::vector<DeviceId> first(int n) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < n; ++d) devices.emplace_back(d);
  return devices;
}

}  // namespace

TEST_CASE("each participant but the root hangs on one other, in as many rounds as n has bits") {
  CHECK(binomial_distances(1).empty());
  CHECK(binomial_distances(2) == std::vector<std::size_t>{1});
  CHECK(binomial_distances(6) == std::vector<std::size_t>{4, 2, 1});
  CHECK(binomial_distances(192).size() == 8);
  for (std::size_t n = 1; n < 70; ++n) {
    std::vector<bool> has(n, false);  // the root's data
    has[0] = true;
    for (std::size_t d : binomial_distances(n))
      for (std::size_t i = 0; i + d < n; i += 2 * d) {
        CHECK(has[i]);
        CHECK_FALSE(has[i + d]);
        has[i + d] = true;
      }
    CHECK(std::all_of(has.begin(), has.end(), [](bool b) { return b; }));
  }
}

TEST_CASE("what is chosen is what is fastest on the idle machine, or nearly so") {
  const Topology summit = load_topology("summit", {.nodes = 8});
  const CollectiveCache cache(summit);
  const CollectiveAlgorithms algorithms(summit);
  for (CollectiveKind kind :
       {kAllReduce, kReduce, kBroadcast, CollectiveKind::all_gather, CollectiveKind::reduce_scatter})
    for (int n : {2, 3, 4, 6, 12, 20, 48})
      for (std::int64_t bytes = 1; bytes < 1'000'000'000; bytes *= 4) {
        CAPTURE(to_string(kind), n, bytes);
        const CommunicationAlgorithm chosen = algorithms.choose(kind, first(n), {bytes});
        auto seconds = [&](CollectiveAlgorithm algorithm) {
          return cache.choose(kind, first(n), {bytes}, {.algorithm = algorithm})->predicted().seconds();
        };
        const double taken = cache.choose(kind, first(n), {bytes})->predicted().seconds();
        // Asked for what can not be done, the cache gives what is chosen.
        for (CollectiveAlgorithm other :
             {CollectiveAlgorithm::binomial, CollectiveAlgorithm::hierarchical,
              kind == kReduce || kind == kBroadcast ? CollectiveAlgorithm::chain : CollectiveAlgorithm::ring})
          CHECK(taken <= 1.05 * seconds(other));
        if (chosen.name) CHECK(taken >= 0.999 * seconds(*chosen.name));
        if (n <= 3) CHECK_FALSE(chosen.name);
        if (n <= 6 || n == 20) CHECK(chosen.name != CollectiveAlgorithm::hierarchical);  // 6, 6, 6 and 2 in a node
        if (chosen.name == CollectiveAlgorithm::hierarchical) CHECK(chosen.devices_per_node == 6);
      }
  auto name = [&](CollectiveKind kind, std::int64_t bytes, const CollectiveAlgorithms& of) {
    return of.choose(kind, first(48), {bytes}).name;
  };
  CHECK(name(kReduce, 8192, algorithms) == CollectiveAlgorithm::binomial);
  CHECK(name(kAllReduce, 8192, algorithms) == CollectiveAlgorithm::binomial);
  CHECK(name(kAllReduce, 8 << 20, algorithms) == CollectiveAlgorithm::hierarchical);
  CHECK(name(CollectiveKind::all_gather, 8 << 20, algorithms) == CollectiveAlgorithm::hierarchical);
  CHECK_FALSE(name(kReduce, 1 << 30, algorithms));
  CHECK_FALSE(name(CollectiveKind::all_to_all, 8192, algorithms));
  const Topology with_library = load_topology("summit-nccl", {.nodes = 8});
  const CollectiveAlgorithms library(with_library);
  for (CollectiveKind kind : {kReduce, kAllReduce}) CHECK_FALSE(name(kind, 8192, library));
  // Much in many chunks, little at once.
  CHECK(algorithms.choose(kAllReduce, first(48), {256 << 20}).chunks > 8);
  CHECK(algorithms.choose(kAllReduce, first(48), {1 << 20}).chunks <= 2);
}

TEST_CASE("participants of a tree or hierarchy go by number behind the root, whatever order they had; a ring's stay") {
  const Topology summit = load_topology("summit", {.nodes = 2});
  ProgramBuilder b(12);
  b.communicate(kReduce, {7, 3, 11, 0, 5}, 16);
  b.communicate(kAllReduce, {7, 3, 11, 0, 5}, 16);
  b.communicate(kAllReduce, {7, 3, 11, 0, 5}, 100'000'000);
  b.communicate(kAllReduce, {7, 3, 11, 2}, 10'000'000);
  choose_algorithms(b.program, CollectiveAlgorithms(summit));
  auto devices = [&](std::size_t c) {
    std::vector<int> list;
    for (const Participant& p : b.program.communications[c].participants) list.push_back(p.device.value);
    return list;
  };
  auto algorithm = [&](std::size_t c) { return b.program.communications[c].algorithm.name; };
  CHECK(algorithm(0) == CollectiveAlgorithm::binomial);
  CHECK(devices(0) == std::vector<int>{7, 0, 3, 5, 11});
  CHECK(algorithm(1) == CollectiveAlgorithm::binomial);
  CHECK(devices(1) == std::vector<int>{0, 3, 5, 7, 11});
  CHECK(b.program.tasks[1].device == DeviceId(0));
  CHECK_FALSE(algorithm(2));
  CHECK(devices(2) == std::vector<int>{7, 3, 11, 0, 5});
  CHECK(algorithm(3) == CollectiveAlgorithm::hierarchical);
  CHECK(devices(3) == std::vector<int>{2, 3, 7, 11});
  CHECK(b.program.communications[3].algorithm.devices_per_node == 2);
  CHECK(check_program(b.program).ok());
  b.program.communications[3].algorithm.devices_per_node = 3;
  CHECK_FALSE(check_program(b.program).ok());
}
