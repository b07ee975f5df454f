// Sends that become one all-to-all, and gradients that are received where they belong.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/join_sends.h"
#include "core/plan/lower.h"
#include "core/plan/receive_in_place.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

// Devices 0 and 1 compute, devices 2 and 3 get something of each, and so much of it.
struct TwoToTwo {
  ProgramBuilder b{4};
  std::vector<TaskId> made, sends;

  explicit TwoToTwo(std::int64_t elements = 10) {
    for (int from : {0, 1}) made.push_back(b.compute(from, 1));
    for (int from : {0, 1})
      for (int to : {2, 3}) sends.push_back(send(from, to, elements, {made[static_cast<std::size_t>(from)]}));
  }
  // Between buffers of their own.
  TaskId send(int from, int to, std::int64_t elements, std::vector<TaskId> after) {
    const BufferId source = b.buffer(from, elements), target = b.buffer(to, elements);
    TaskId task = b.communicate(CollectiveKind::send, {from, to}, elements, std::move(after));
    Communication& c = b.program.communications.back();
    c.participants[0].send = source, c.participants[1].receive = target;
    return task;
  }
  std::vector<CollectiveKind> join() {
    std::vector<PooledTask> pool = take_tasks(b.program);
    const std::size_t before = pool.size();
    const bool joined = join_sends(b.program, pool);
    CHECK(joined == (pool.size() < before));
    put_tasks(b.program, pool);
    REQUIRE(check_program(b.program).ok());
    std::vector<CollectiveKind> kinds;
    for (const Communication& c : b.program.communications) kinds.push_back(c.kind);
    return kinds;
  }
};

using Kinds = std::vector<CollectiveKind>;
constexpr CollectiveKind kSend = CollectiveKind::send, kAllToAll = CollectiveKind::all_to_all;

}  // namespace

TEST_CASE("sends behind the same tasks and before the same ones become one all-to-all") {
  TwoToTwo p;
  p.b.compute(2, 1, {p.sends[0], p.sends[2]});
  p.b.compute(3, 1, {p.sends[1], p.sends[3]});
  const Bytes before = p.b.program.communicated();
  CHECK(p.join() == Kinds{kAllToAll});
  const Communication& c = p.b.program.communications[0];
  CHECK(p.b.program.communicated() == before);
  CHECK(c.participants.size() == 4);
  CHECK(c.exchanges.size() == 4);
  for (const Exchange& e : c.exchanges) {
    const std::vector<Participant>& part = c.part(static_cast<std::size_t>(e.part));
    CHECK(part[static_cast<std::size_t>(e.from)].send.valid());
    CHECK(part[static_cast<std::size_t>(e.to)].receive.valid());
  }
  REQUIRE(p.b.program.tasks.size() == 5);
  CHECK(p.b.program.dependencies_of(p.b.program.tasks[2]).size() == 2);
}

TEST_CASE("sends of which one waits for the other, or that nothing joins, stay sends") {
  SECTION("one after the other") {
    TwoToTwo p;
    TaskId passed = p.b.compute(2, 1, {p.sends[0], p.sends[2]});
    p.send(2, 3, 10, {passed});
    CHECK(p.join() == Kinds{kAllToAll, kSend});
  }
  SECTION("pairs") {
    TwoToTwo p;
    p.b = ProgramBuilder(4);
    for (int i : {0, 1}) {
      TaskId made = p.b.compute(i, 1);
      p.b.compute(i + 2, 1, {p.send(i, i + 2, 10, {made})});
    }
    CHECK(p.join() == Kinds{kSend, kSend});
  }
  SECTION("large") {
    TwoToTwo p(kSmallSend.count / 4 + 1);
    CHECK(p.join() == Kinds(4, kSend));
  }
}

TEST_CASE("tasks between the sends that become one keep their order around it") {
  TwoToTwo p;
  p.b = ProgramBuilder(4);
  TaskId a = p.b.compute(0, 1), first = p.send(0, 2, 10, {a}), early = p.b.compute(2, 1, {first});
  TaskId c = p.b.compute(1, 1), second = p.send(1, 2, 10, {c});
  p.b.compute(2, 1, {early, first, second});
  CHECK(p.join() == Kinds{kAllToAll});
  std::vector<bool> communicates;
  for (const Task& t : p.b.program.tasks) communicates.push_back(t.kind == TaskKind::communicate);
  CHECK(communicates == std::vector<bool>{false, false, true, false, false});
  CHECK(p.b.program.dependencies_of(p.b.program.tasks[3]).size() == 1);
}

TEST_CASE("boxes that do not meet are received in place, without zeros where they fill the whole") {
  for (std::int64_t whole : {20, 21})
    for (std::int64_t second : {10, 9}) {  // where the second box begins
      CAPTURE(whole, second);
      TwoToTwo p;
      p.b = ProgramBuilder(3);
      Program& program = p.b.program;
      const BufferId sum = p.b.buffer(2, whole, BufferCategory::gradient);
      std::vector<TaskId> received;
      for (int from : {0, 1}) received.push_back(p.send(from, 2, 10, {p.b.compute(from, 1)}));
      auto add = [&](TaskKind kind, std::vector<BufferId> operands, std::vector<TaskId> after) {
        TaskId id = p.b.compute(2, 1, std::move(after), std::move(operands));
        program.tasks[id.index()].kind = kind, program.tasks[id.index()].op = -1;
        return id;
      };
      TaskId last = add(TaskKind::zero, {sum}, {});
      for (std::size_t i : {0, 1}) {
        const Box box{{i == 0 ? 0 : second}, {10}};
        Communication& c = program.communications[i];
        for (Participant& q : c.participants) q.piece = box;
        program.buffers[c.participants[0].send.index()].box = box;
        program.buffers[c.participants[1].receive.index()].box = box;
        program.boxes.push_back(box);
        last = add(TaskKind::accumulate, {c.participants[1].receive, sum}, {last, received[i]});
        program.tasks[last.index()].op = static_cast<std::int32_t>(i);
      }
      p.b.compute(2, 1, {last}, {});
      std::vector<PooledTask> pool = take_tasks(program);
      const bool changed = receive_in_place(program, pool);
      put_tasks(program, pool);
      REQUIRE(check_program(program).ok());
      CHECK(changed == (second == 10));
      auto on_sum = [&](TaskKind kind) {
        return std::ranges::count_if(program.tasks, [&](const Task& t) {
          return t.kind == kind && !program.operands_of(t).empty() && program.operands_of(t).back() == sum;
        });
      };
      CHECK(on_sum(TaskKind::accumulate) == (changed ? 0 : 2));
      CHECK(on_sum(TaskKind::zero) == (changed && whole == 20 ? 0 : 1));
      for (const Communication& c : program.communications) CHECK((c.participants[1].receive == sum) == changed);
      if (!changed) continue;
      // Whoever waited for the last addition waits for both sends, and both for the zeros.
      CHECK(program.dependencies_of(program.tasks.back()).size() >= 2);
      for (const Task& t : program.tasks)
        if (t.kind == TaskKind::communicate) CHECK(program.dependencies_of(t).size() == (whole == 20 ? 1 : 2));
    }
}

TEST_CASE("look-ups in tables that lie on some devices for a batch on others travel as one, there and back") {
  const SimulatedCostModel cost(load_topology("summit", {2, 12}));
  SearchOptions options;
  options.strategy = "expert";
  const ModelSpec spec{"dlrm", {{"batch", 1536}}};
  Plan plan = find_plan(spec, build_model(spec), cost, options).value();
  LowerOptions unscheduled;
  unscheduled.scheduled = false;
  Program as_lowered = lower(plan.pcg, plan.mappings, cost.topology(), unscheduled).value();
  Program program = lower(plan.pcg, plan.mappings, cost.topology(), {.schedule = plan.schedule}).value();
  auto count = [](const Program& p, CollectiveKind kind) {
    return std::ranges::count_if(p.communications, [kind](const Communication& c) { return c.kind == kind; });
  };
  CAPTURE(count(as_lowered, kSend), count(program, kAllToAll));
  CHECK(count(as_lowered, kSend) > 500);
  CHECK(count(program, kSend) == 0);
  CHECK(count(program, kAllToAll) == 2);
  CHECK(program.communicated() == as_lowered.communicated());
  // Joined once, for whatever schedule.
  Program joined = as_lowered;
  join_transfers(joined);
  CHECK(count(joined, kAllToAll) == 2);
  for (const Schedule& schedule : {plan.schedule, Schedule{.overlap = 1, .bucket = {1'000'000}}}) {
    Program at_once = as_lowered, later = joined;
    REQUIRE(schedule_tasks(at_once, schedule, cost.topology()).ok());
    REQUIRE(schedule_tasks(later, schedule, cost.topology(), true).ok());
    CHECK(program_hash(at_once) == program_hash(later));
  }
  CHECK(simulate(program, cost.topology(), {}).iteration.seconds() * 1.5 <
        simulate(as_lowered, cost.topology(), {}).iteration.seconds());
}
