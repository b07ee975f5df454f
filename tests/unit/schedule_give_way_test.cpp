// Collectives of gradients behind what the backward pass waits for: sums of batch norms' statistics.

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/give_way.h"
#include "core/plan/lower.h"
#include "core/plan/overlap.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

using namespace unity;

namespace {

const ModelSpec kImages{"resnext-50", {{"batch", 768}}};

Program data_parallel(const ModelSpec& spec, Bytes bucket, const SimulatedCostModel& cost) {
  SearchOptions options;
  options.strategy = "data-parallel";
  options.schedule.bucket = bucket;
  Plan plan = find_plan(spec, build_model(spec), cost, options).value();
  return lower(plan.pcg, plan.mappings, cost.topology(), {.schedule = plan.schedule}).value();
}

// Of what a task is and reads and writes.
std::string signature(const PooledTask& t) {
  std::string text = fmt::format("{} {} {} {}", static_cast<int>(t.task.kind), static_cast<int>(t.task.phase),
                                 t.task.device.value, t.task.op);
  for (BufferId b : t.operands) text += fmt::format(" {}", b.index());
  return text;
}

}  // namespace

TEST_CASE("collectives of gradients give way to what the backward pass waits for, and that is faster") {
  SimulatedCostModel cost(load_topology("summit", {2, 12}));
  const Program before = data_parallel(kImages, Bytes{5'000'000}, cost);
  Program after = before;
  std::vector<PooledTask> old_pool = take_tasks(before), pool = old_pool;
  REQUIRE(give_way(before, pool));
  put_tasks(after, pool);
  REQUIRE(check_program(after).ok());

  std::map<std::string, std::size_t> old_place;
  for (std::size_t i = 0; i < old_pool.size(); ++i) old_place[signature(old_pool[i])] = i;
  const std::vector<bool> of_weights = gradients_of_weights(pool);
  REQUIRE(pool.size() == old_pool.size());
  std::size_t last = 0, gradients = 0, later = 0;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    auto place = old_place.find(signature(pool[i]));
    REQUIRE(place != old_place.end());
    if (pool[i].task.kind == TaskKind::communicate && pool[i].task.phase == Phase::backward && of_weights[i]) {
      ++gradients, later += place->second < last;  // than tasks that it stood before
      continue;
    }
    CHECK(place->second >= last);  // all others stay in their order
    last = std::max(last, place->second);
  }
  CHECK(later >= gradients / 2);
  const double old_time = cost.score(before).iteration.seconds(), time = cost.score(after).iteration.seconds();
  CHECK(time < 0.98 * old_time);
}

TEST_CASE("where the backward pass waits for no communication, collectives of gradients stay") {
  SimulatedCostModel cost(load_topology("summit", {1, 6}));
  const Program program = data_parallel({"mlp", {{"batch", 384}}}, Bytes{0}, cost);
  std::vector<PooledTask> pool = take_tasks(program);
  CHECK_FALSE(give_way(program, pool));
}

TEST_CASE("a plan whose gradients are to be hidden has them behind what the pass waits for") {
  SimulatedCostModel cost(load_topology("summit", {2, 12}));
  auto iteration = [&](int overlap) {
    SearchOptions options;
    options.strategy = "data-parallel";
    options.schedule.bucket = Bytes{5'000'000};
    options.schedule.overlap = overlap;
    return find_plan(kImages, build_model(kImages), cost, options).value().prediction.iteration.seconds();
  };
  CHECK(iteration(1) < 0.98 * iteration(0));
}
