// Launches in groups of many threads on the host (support/emulated_groups.h), which this program's other tests run
// every kernel in; and how large launches are.
#include <algorithm>
#include <limits>
#include <numeric>

#include <catch2/catch.hpp>

#include "runtime/cuda/launch.h"
#include "tests/support/emulated_groups.h"

using namespace unity;
using namespace unity::cuda;

namespace {

// y[0] in both orders: of threads that each write their rank to memory and then add up all, with or without a wait
// between.
std::vector<int> sums_of_ranks(bool waits) {
  std::vector<int> found;
  const bool before = test::run_groups_backward(false);
  for (bool backward : {false, true}) {
    test::run_groups_backward(backward);
    std::vector<int> memory(32), sums(32);
    for_each_group(nullptr, 1, 1, [&](std::int64_t, const Group& group) {
      auto rank = static_cast<std::size_t>(group.rank());
      memory[rank] = group.rank();
      if (waits) group.sync();
      sums[rank] = std::accumulate(memory.begin(), memory.end(), 0);
    });
    found.push_back(sums[0]);
  }
  test::run_groups_backward(before);
  return found;
}

}  // namespace

TEST_CASE("every thread of a group gets the sum and the largest of all") {
  for (std::int64_t work : {1, 1000, 4000, 5000}) {
    int size = size_of_groups(3, work).group;
    std::vector<std::vector<int>> ranks(3);
    for_each_group(nullptr, 3, work, [&](std::int64_t g, const Group& group) {
      CHECK(group.size() == size);
      CHECK(group.sum(group.rank()) == size * (size - 1) / 2);
      CHECK(group.max(static_cast<double>(-group.rank())) == 0);
      ranks[static_cast<std::size_t>(g)].push_back(group.rank());
    });
    for (std::vector<int>& of_group : ranks) std::sort(of_group.begin(), of_group.end());
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    CHECK(ranks == std::vector<std::vector<int>>(3, all));
  }
}

TEST_CASE("what threads read of others without waiting for them depends on their order") {
  CHECK(sums_of_ranks(true) == std::vector<int>{496, 496});  // 0 + 1 + .. + 31
  CHECK(sums_of_ranks(false) == std::vector<int>{0, 496});   // the first thread, first and last
}

TEST_CASE("threads of a group that do not all wait, or for different things, are an error") {
  auto run = [](auto f) { for_each_group(nullptr, 1, 1, f); };
  CHECK_THROWS_WITH(run([](std::int64_t, const Group& group) {
                      if (group.rank() < 31) group.sync();
                    }),
                    "some threads of a group end while others wait for them");
  CHECK_THROWS_WITH(run([](std::int64_t, const Group& group) {
                      if (group.rank() < 16)
                        group.sum(1);
                      else
                        group.max(1);
                    }),
                    "threads of a group wait for different things");
  CHECK_THROWS_WITH(run([](std::int64_t, const Group&) { throw std::runtime_error("of a thread"); }), "of a thread");
}

TEST_CASE("launches of any size keep what every GPU takes, and leave out nothing") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t n : {std::int64_t{1}, std::int64_t{255}, std::int64_t{256}, std::int64_t{257},
                         std::int64_t{1} << 24, (std::int64_t{1} << 31) + 1, std::int64_t{1} << 40, kMost})
    for (std::int64_t work : {std::int64_t{1}, std::int64_t{257}, std::int64_t{1025}, std::int64_t{4097}, kMost}) {
      INFO(n << " groups with " << work << " items each");
      for (LaunchSize size : {size_of_each(n), size_of_groups(n, work)}) {
        CHECK(size.threads <= 512);  // what run_groups is compiled for; a block may have 1024
        CHECK(size.blocks >= 1);
        CHECK(size.blocks <= 65536);  // along x, where 2^31 - 1 are allowed
        CHECK(size.threads % static_cast<unsigned>(size.group) == 0);
        std::int64_t at_once = std::int64_t{size.blocks} * (size.threads / static_cast<unsigned>(size.group));
        CHECK((at_once >= n || size.blocks == 65536));
      }
      int group = size_of_groups(n, work).group;
      CHECK((group == 32 || group % 32 == 0));  // a warp, or a block of warps
    }
  CHECK(size_of_each(257).blocks == 2);
  CHECK(size_of_groups(9, 100).blocks == 3);  // four warps to a block
  CHECK(size_of_groups(9, 1000).blocks == 9);
}
