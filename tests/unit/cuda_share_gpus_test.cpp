// Which GPUs the processes of a node take.
#include <catch2/catch.hpp>

#include "runtime/cuda/devices.h"

using namespace unity;
using unity::cuda::GpuView;
using unity::cuda::share_gpus;

namespace {

using Places = std::vector<std::size_t>;

std::vector<Places> shares(const std::vector<GpuView>& node) {
  std::vector<Places> all;
  for (std::size_t p = 0; p < node.size(); ++p) all.push_back(share_gpus(node, p));
  return all;
}

}  // namespace

TEST_CASE("processes that see the same GPUs take one each, or share them as neighbours") {
  CHECK(shares({{{7, 8, 9}, 2}}) == std::vector<Places>{{0, 1}});
  CHECK(shares({{{7, 8}, 1}, {{7, 8}, 1}}) == std::vector<Places>{{0}, {1}});
  CHECK(shares({{{7, 8}, 2}, {{7, 8}, 2}}) == std::vector<Places>{{0, 0}, {1, 1}});
  CHECK(shares({{{7, 8, 9}, 1}, {{7, 8, 9}, 2}}) == std::vector<Places>{{0}, {1, 2}});
  CHECK(shares({{{7, 8}, 3}}) == std::vector<Places>{{0, 0, 1}});
}

TEST_CASE("processes that see the same GPUs in another order do not meet on one") {
  CHECK(shares({{{7, 8}, 1}, {{8, 7}, 1}}) == std::vector<Places>{{0}, {0}});
}

TEST_CASE("processes that are bound to GPUs of their own take all of them") {
  CHECK(shares({{{7}, 1}, {{8}, 1}, {{9}, 1}}) == std::vector<Places>{{0}, {0}, {0}});
  CHECK(shares({{{7, 8}, 2}, {{9, 10}, 2}}) == std::vector<Places>{{0, 1}, {0, 1}});
  CHECK(shares({{{7}, 2}, {{8}, 2}}) == std::vector<Places>{{0, 0}, {0, 0}});
  CHECK(shares({{{7, 8}, 1}, {{9, 10}, 1}, {{7, 8}, 1}, {{9, 10}, 1}}) == std::vector<Places>{{0}, {0}, {1}, {1}});
}
