#include <catch2/catch.hpp>

#include "core/machine/topology.h"
#include "core/plan/binomial.h"
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

TEST_CASE("little goes along trees, much along chains and rings, as is faster on the idle machine") {
  const Topology summit = load_topology("summit", {.nodes = 8});
  CollectiveCache cache(summit);
  for (CollectiveKind kind : {kAllReduce, kReduce, kBroadcast})
    for (int n : {2, 3, 4, 6, 12, 48}) {
      std::optional<bool> before;
      for (std::int64_t bytes = 1; bytes < 1'000'000'000; bytes *= 4) {
        CAPTURE(to_string(kind), n, bytes);
        const bool tree = along_binomial_tree(kind, first(n), {bytes}, summit);
        if (n <= 3) CHECK_FALSE(tree);
        if (before == false) CHECK_FALSE(tree);  // never again
        before = tree;
        auto other = kind == kAllReduce ? CollectiveAlgorithm::ring : CollectiveAlgorithm::chain;
        auto seconds = [&](CollectiveAlgorithm algorithm) {
          return cache.choose(kind, first(n), {bytes}, {.algorithm = algorithm})->predicted().seconds();
        };
        const double with = seconds(CollectiveAlgorithm::binomial), without = seconds(other);
        if (std::abs(with - without) > 0.05 * without) CHECK(tree == (with < without));
        CHECK(cache.choose(kind, first(n), {bytes})->predicted().seconds() == (tree ? with : without));
      }
      if (n == 48) CHECK(before == false);
    }
  CHECK(along_binomial_tree(kReduce, first(48), {8192}, summit));
  CHECK_FALSE(along_binomial_tree(CollectiveKind::all_gather, first(48), {8192}, summit));
  CHECK_FALSE(along_binomial_tree(kReduce, first(48), {8192}, load_topology("summit-nccl", {.nodes = 8})));
}

TEST_CASE("participants of a tree go by number behind the root, whatever order they had; a ring's stay") {
  const Topology summit = load_topology("summit", {.nodes = 2});
  ProgramBuilder b(12);
  b.communicate(kReduce, {7, 3, 11, 0, 5}, 16);
  b.communicate(kAllReduce, {7, 3, 11, 0, 5}, 16);
  b.communicate(kAllReduce, {7, 3, 11, 0, 5}, 100'000'000);
  choose_binomial_trees(b.program, summit);
  auto devices = [&](std::size_t c) {
    std::vector<int> list;
    for (const Participant& p : b.program.communications[c].participants) list.push_back(p.device.value);
    return list;
  };
  CHECK(b.program.communications[0].binomial);
  CHECK(devices(0) == std::vector<int>{7, 0, 3, 5, 11});
  CHECK(b.program.communications[1].binomial);
  CHECK(devices(1) == std::vector<int>{0, 3, 5, 7, 11});
  CHECK(b.program.tasks[1].device == DeviceId(0));
  CHECK_FALSE(b.program.communications[2].binomial);
  CHECK(devices(2) == std::vector<int>{7, 3, 11, 0, 5});
}
