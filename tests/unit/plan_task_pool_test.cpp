// Tasks that are put into another order.
#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "core/plan/task_pool.h"
#include "tests/support/dice.h"

namespace unity::test {

TEST_CASE("tasks are put into another order, by way of a copy and in place") {
  const std::uint64_t seed = GENERATE(range(1, 41));
  CAPTURE(seed);
  Dice dice(seed);
  const std::size_t count = 2 + dice.below(200);
  std::vector<PooledTask> pool(count);
  for (std::size_t i = 0; i < count; ++i) {
    pool[i].task.flops = static_cast<double>(i);
    for (std::size_t k = dice.below(6); k > 0; --k)
      pool[i].operands.emplace_back(static_cast<std::int64_t>(10 * i + k));
    for (std::size_t k = i == 0 ? 0 : dice.below(6); k > 0; --k) pool[i].after.push_back(dice.below(i));
  }
  // The next one is any of those whose dependencies are there; as they stand in one case of three. Some that nothing
  // comes after are dropped.
  const bool as_they_are = seed % 3 == 0;
  std::vector<bool> awaited(count, false), placed(count, false), dropped(count, false);
  for (const PooledTask& t : pool)
    for (std::size_t d : t.after) awaited[d] = true;
  for (std::size_t i = 0; i < count; ++i) dropped[i] = !awaited[i] && dice.below(3) == 0;
  std::vector<std::size_t> order;
  for (;;) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < count; ++i)
      if (!placed[i] && !dropped[i] &&
          std::all_of(pool[i].after.begin(), pool[i].after.end(), [&](std::size_t d) { return placed[d]; }))
        open.push_back(i);
    if (open.empty()) break;
    order.push_back(open[as_they_are ? 0 : dice.below(open.size())]);
    placed[order.back()] = true;
  }
  CHECK((!as_they_are || std::is_sorted(order.begin(), order.end())));
  std::vector<std::size_t> place(count);
  for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = k;
  for (std::size_t most_copied : {count, std::size_t{0}}) {
    CAPTURE(most_copied);
    std::vector<PooledTask> sorted = pool;
    reorder(sorted, order, most_copied);
    REQUIRE(sorted.size() == order.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      const PooledTask& was = pool[order[k]];
      CHECK(sorted[k].task.flops == was.task.flops);
      CHECK(sorted[k].operands == was.operands);
      std::vector<std::size_t> after;
      for (std::size_t d : was.after) after.push_back(place[d]);
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      CHECK(std::equal(sorted[k].after.begin(), sorted[k].after.end(), after.begin(), after.end()));
    }
  }
}

}  // namespace unity::test
