// Small communications that become one: where they start together, or are awaited together, and nowhere else.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/join_small.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

constexpr CollectiveKind kReduce = CollectiveKind::reduce, kBroadcast = CollectiveKind::broadcast;

// By communication that is left, in order: how many parts it has.
std::vector<std::size_t> parts_after_joining(Program& program) {
  std::vector<PooledTask> pool = take_tasks(program);
  const std::size_t before = pool.size();
  const bool joined = join_small_communications(program, pool);
  CHECK(joined == (pool.size() < before));
  put_tasks(program, pool);
  REQUIRE(check_program(program).ok());
  std::vector<std::size_t> parts;
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::communicate)
      parts.push_back(program.communications[static_cast<std::size_t>(t.op)].part_count());
  return parts;
}

using Parts = std::vector<std::size_t>;

}  // namespace

TEST_CASE("communications of a kind behind the same tasks become one, and what follows either follows it") {
  ProgramBuilder b(3);
  TaskId x = b.compute(0, 1), y = b.compute(1, 1);
  TaskId first = b.communicate(kReduce, {0, 1, 2}, 10, {x, y});
  TaskId between = b.compute(2, 1, {first});
  TaskId second = b.communicate(kReduce, {0, 1, 2}, 20, {x, y});
  TaskId other_kind = b.communicate(kBroadcast, {0, 1, 2}, 20, {x, y});
  TaskId other_devices = b.communicate(kReduce, {0, 2, 1}, 20, {x, y});
  TaskId other_tasks = b.communicate(kReduce, {0, 1, 2}, 20, {x});
  b.compute(0, 1, {second, between});
  b.compute(0, 1, {other_kind});
  b.compute(0, 1, {other_devices});
  b.compute(0, 1, {other_tasks});
  CHECK(parts_after_joining(b.program) == Parts{2, 1, 1, 1});
  // x, y, both, between, the three others, and the four at the end.
  REQUIRE(b.program.tasks.size() == 11);
  auto after = [&](std::size_t task) {
    std::vector<std::int64_t> list;
    for (TaskId d : b.program.dependencies_of(b.program.tasks[task])) list.push_back(d.value);
    return list;
  };
  CHECK(after(2) == std::vector<std::int64_t>{0, 1});
  CHECK(after(3) == std::vector<std::int64_t>{2});
  CHECK(after(7) == std::vector<std::int64_t>{2, 3});
  CHECK(b.program.tasks[2].bytes == 2 * 4 * (10 + 20));
  CHECK(elements_moved(b.program.communications[0]) == 30);
}

TEST_CASE("communications that the same tasks wait for become one, where the last of them stood") {
  ProgramBuilder b(2);
  TaskId x = b.compute(0, 1);
  TaskId first = b.communicate(kBroadcast, {0, 1}, 10, {x});
  TaskId y = b.compute(0, 1, {x});
  TaskId second = b.communicate(kBroadcast, {0, 1}, 10, {y});
  TaskId z = b.compute(0, 1, {y});
  TaskId third = b.communicate(kBroadcast, {0, 1}, 10, {z});  // one more waits for this one
  b.compute(1, 1, {first, second, third});
  b.compute(1, 1, {third});
  CHECK(parts_after_joining(b.program) == Parts{2, 1});
  CHECK(b.program.tasks[2].kind == TaskKind::communicate);
  CHECK(b.program.dependencies_of(b.program.tasks[2]).size() == 2);
}

TEST_CASE("what is large, or would be together, stays apart") {
  const auto most = static_cast<std::int64_t>(kSmallTogether.count / 4);
  auto parts = [](std::vector<std::int64_t> elements) {
    ProgramBuilder b(2);
    TaskId x = b.compute(0, 1);
    std::vector<TaskId> all;
    for (std::int64_t e : elements) all.push_back(b.communicate(kBroadcast, {0, 1}, e, {x}));
    b.compute(1, 1, all);
    return parts_after_joining(b.program);
  };
  CHECK(parts({most / 2, most / 2}) == Parts{2});
  CHECK(parts({most / 2, most / 2 + 1}) == Parts{1, 1});
  CHECK(parts({most + 1, 1}) == Parts{1, 1});
  CHECK(parts({most / 3, most / 3, most / 3, most / 3}) == Parts{3, 1});
}

TEST_CASE("statistics of a batch norm over all devices, and their gradients, travel together, which is faster") {
  const SimulatedCostModel cost(load_topology("summit", {2, 12}));
  SearchOptions options;
  options.strategy = "data-parallel";
  const ModelSpec images{"resnext-50", {{"batch", 48}, {"blocks", 1}}};
  Plan plan = find_plan(images, build_model(images), cost, options).value();
  LowerOptions lowered;
  lowered.scheduled = false;
  Program apart = lower(plan.pcg, plan.mappings, cost.topology(), lowered).value(), joined = apart;
  std::vector<PooledTask> pool = take_tasks(joined);
  REQUIRE(join_small_communications(joined, pool));
  put_tasks(joined, pool);
  REQUIRE(check_program(joined).ok());
  // 17 batch norms: sums of two statistics, the statistics, sums of two gradients, and these.
  auto of_statistics = [](const Program& p, std::size_t parts) {
    return std::ranges::count_if(p.communications, [&](const Communication& c) {
      return (c.kind == kReduce || c.kind == kBroadcast) && c.part_count() == parts;
    });
  };
  const auto norms = std::ranges::count_if(plan.pcg.nodes(), [](const Node& n) { return n.op->name() == "moments"; });
  CHECK(of_statistics(apart, 1) == 8 * norms);
  CHECK(of_statistics(joined, 2) == 4 * norms);
  CHECK(of_statistics(joined, 1) == 0);
  CHECK(apart.communicated() == joined.communicated());
  CHECK(simulate(joined, cost.topology(), {}).iteration < simulate(apart, cost.topology(), {}).iteration);
}
