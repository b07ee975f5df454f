#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/plan/lower.h"
#include "core/plan/memory_plan.h"
#include "core/plan/offload.h"
#include "simulator/simulate.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

constexpr int kLength = 20;

// 20 functions of [16, 16], 1024 bytes each; a weight in front, so that gradients flow.
Program chain(Offload offload) {
  Builder b("chain");
  ValueRef h = b.apply("matmul", {}, {b.input("x", {16, 16}), b.weight("w", {16, 16})});
  for (int k = 0; k < kLength; ++k) h = b.apply("sigmoid", {}, {h}, "f" + std::to_string(k));
  Pcg pcg = std::move(b).finish({b.apply("reduce_mean", {Dims{0, 1}}, {h})});
  return lower(pcg, natural_mappings(pcg), uniform_topology(1), {.schedule = {.offload = offload}}).value();
}

// Six weights of 1024 bytes, each with two states.
Program layers(Offload offload) {
  Builder b("layers");
  ValueRef h = b.input("x", {16, 16});
  for (int k = 0; k < 6; ++k) h = b.apply("matmul", {}, {h, b.weight("w" + std::to_string(k), {16, 16})});
  Pcg pcg = std::move(b).finish({b.apply("reduce_mean", {Dims{0, 1}}, {h})});
  LowerOptions options{.optimizer = parse_optimizer("adam"), .schedule = {.offload = offload}};
  return lower(pcg, natural_mappings(pcg), uniform_topology(1), options).value();
}

std::vector<const Task*> copies(const Program& program, Phase phase) {
  std::vector<const Task*> list;
  for (const Task& t : program.tasks)
    if (t.stream == Stream::copy && t.phase == phase) list.push_back(&t);
  return list;
}

}  // namespace

TEST_CASE("results that are used again late go to the host and come back, on the copy stream") {
  Program program = chain(Offload::activations);
  auto out = copies(program, Phase::forward), in = copies(program, Phase::backward);
  REQUIRE(out.size() == in.size());
  // Forward tasks: matmul, f0 .. f19, mean (22). f_i is used last by task i + 2, the (i + 3)rd, and first in the
  // backward pass after the mean's gradient (2 tasks) and those of f19 .. f_(i+1): by task 22 + 2 + 19 - i. At least 8
  // tasks between: 43 - i >= i + 3 + 8, so f0 .. f16.
  CHECK(chain(Offload::none).tasks.size() == 22 + 2 + 20 + 1 + 1);  // with the weight's gradient and its update
  CHECK(out.size() == 17);
  for (const Task* t : out) {
    CHECK(program.buffer(program.operands_of(*t)[1]).on_host);
    CHECK(!program.buffer(program.operands_of(*t)[0]).on_host);
  }
  for (const Task* t : in) CHECK(program.buffer(program.operands_of(*t)[0]).on_host);
}

TEST_CASE("what waits on the host takes no memory of the device") {
  Topology one = uniform_topology(1);
  Program plain = chain(Offload::none), moved = chain(Offload::activations);
  std::int64_t before = simulate(plain, one, {}).peak_memory[0].count,
               after = simulate(moved, one, {}).peak_memory[0].count;
  // At the turn 20 results wait without; with it f17 .. f19, and those on their way: out those of the last 4 tasks,
  // back those of the next 4.
  CHECK(before - after >= 9 * 1024);
  MemoryPlan there = plan_memory(plain), here = plan_memory(moved);
  CHECK(there.host_arenas[0].count == 0);
  CHECK(here.host_arenas[0].count == 17 * 1024);
  CHECK(there.arenas[0].count - here.arenas[0].count >= 9 * 1024);
}

TEST_CASE("optimizer states are fetched before their update and written back after it, of two updates at most") {
  Program program = layers(Offload::optimizer);
  auto moves = copies(program, Phase::update);
  CHECK(moves.size() == 6 * 2 * 2);  // weights, states, ways
  std::size_t here = 0, most = 0;
  for (const Task* t : moves) {
    CHECK(program.copies_from_host(*t) != program.copies_to_host(*t));
    program.copies_from_host(*t) ? ++here : --here;
    most = std::max(most, here);
  }
  CHECK(here == 0);
  CHECK(most == 4);
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::update)
      for (BufferId b : program.operands_of(t)) CHECK(!program.buffer(b).on_host);
}

TEST_CASE("optimizer states on the host take memory of the device for two updates only") {
  Topology one = uniform_topology(1);
  Program plain = layers(Offload::none), moved = layers(Offload::optimizer);
  constexpr auto kStates = static_cast<std::size_t>(BufferCategory::optimizer_state);
  SimulationResult before = simulate(plain, one, {}), after = simulate(moved, one, {});
  CHECK(before.memory_by_category[0][kStates].count == 12 * 1024);
  CHECK(after.memory_by_category[0][kStates].count <= 4 * 1024);
  CHECK(before.peak_memory[0].count - after.peak_memory[0].count >= 8 * 1024);
  MemoryPlan there = plan_memory(plain), here = plan_memory(moved);
  CHECK(there.host_arenas[0].count == 0);
  CHECK(here.host_arenas[0].count == 12 * 1024);
  CHECK(there.arenas[0].count - here.arenas[0].count >= 8 * 1024);
}

TEST_CASE("what waits on the host is named in any combination") {
  for (Offload what : {Offload::none, Offload::activations, Offload::optimizer, Offload::activations_and_optimizer})
    CHECK(parse_offload(to_string(what), "--offload") == what);
  CHECK_THROWS_WITH(parse_offload("optimizer,weights", "--offload"),
                    Catch::StartsWith("--offload: found 'optimizer,w"));
}
