// Measuring tasks one by one.
#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "core/plan/task_key.h"
#include "runtime/profile/measure.h"
#include "runtime/profile/single_task.h"
#include "tests/support/runtime_program.h"

using namespace unity;
using namespace unity::test;

namespace {

ProfileOptions quick() {
  ProfileOptions o;
  o.executor.threads = 1;
  o.task_seconds = 0.001;
  o.cache = {1 << 16};
  return o;
}

}  // namespace

TEST_CASE("a program of a single task holds it once for each set and repeat, with its key") {
  Program source = operator_program("matmul", {}, {{{8, 16}}, {{16, 4}}});
  std::string key = task_key(source, source.tasks[0]);
  SingleTaskProgram single = single_task_program(source, TaskId(0), {.sets = 3, .repeats = 2, .flush = {4096}});
  CHECK(check_program(single.program).ok());
  CHECK(single.program.tasks.size() == 1 + 3 * 2);
  REQUIRE(single.runs.size() == 3);
  for (const auto& set : single.runs)
    for (TaskId id : set) CHECK(task_key(single.program, single.program.tasks[id.index()]) == key);
  auto operands = [&](TaskId id) { return single.program.operands_of(single.program.tasks[id.index()]); };
  CHECK(operands(single.runs[0][0])[0] == operands(single.runs[0][1])[0]);
  CHECK(operands(single.runs[0][0])[0] != operands(single.runs[1][0])[0]);
}

TEST_CASE("programs of all kinds of tasks run and take time") {
  std::vector<Program> programs = {operator_program("gelu", {}, {{{100}}}),
                                   operator_program("embedding", {}, {{{6}, DType::i32}, {{12, 4}}}),
                                   movement_program(TaskKind::copy, 100),
                                   movement_program(TaskKind::accumulate, 100),
                                   movement_program(TaskKind::zero, 100),
                                   update_program(parse_optimizer("sgd 0.1"), 100),
                                   update_program(parse_optimizer("adam 0.1"), 100)};
  for (CollectiveKind kind :
       {CollectiveKind::send, CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_reduce,
        CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
    programs.push_back(collective_program(kind, 2, 100));
  for (const Program& p : programs) {
    INFO(task_key(p, p.tasks[0]));
    CHECK(check_program(p).ok());
    ProfileEntry e = measure_task(p, TaskId(0), quick());
    CHECK(e.warm > 0);
    CHECK(e.cold >= e.warm);
    CHECK(e.low <= e.warm);
    CHECK(e.high >= e.warm);
    CHECK(e.samples >= 9);
  }
}

TEST_CASE("a larger product takes longer") {
  auto seconds = [](std::int64_t n) {
    Program p = operator_program("matmul", {}, {{{n, n}}, {{n, n}}});
    return measure_task(p, TaskId(0), quick()).low;
  };
  CHECK(seconds(256) > 10 * seconds(32));  // 512 times the work
}

TEST_CASE("a chain of handovers alternates between two devices") {
  Program p = handover_program(4, 16);
  CHECK(check_program(p).ok());
  CHECK(p.devices == 2);
  CHECK(p.tasks.size() == 9);
}
