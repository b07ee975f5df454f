// check_program() refuses each way in which a Program can be wrong, and names the task.
#include <catch2/catch.hpp>

#include "tests/support/runtime_program.h"

using namespace unity;
using namespace unity::test;

namespace {

// Two devices compute halves of y = tanh(x) and add them up with those of another tensor, in one call.
struct Halves : ProgramByHand {
  std::int32_t x = tensor("x", {4, 2}), y = tensor("y", {4, 2});

  Halves() {
    std::vector<TaskId> computed;
    Communication sum{CollectiveKind::all_reduce, Monoid::sum, {}, {}, DType::f32, {}, "y", {{}}};
    for (int device : {0, 1}) {
      BufferId from = buffer(x, device, {{0, 0}, {2, 2}}), to = buffer(y, device, {{0, 0}, {2, 2}});
      computed.push_back(compute("tanh", {}, {from, to}));
      sum.participants.push_back({DeviceId(device), to, to, {{0, 0}, {2, 2}}});
      sum.joined[0].push_back({DeviceId(device), from, from, {{0, 0}, {2, 2}}});
    }
    communicate(std::move(sum), computed);
  }

  Communication& sum() { return program.communications[0]; }
  std::string refusal() const {
    auto checked = check_program(program);
    return checked.ok() ? "" : checked.error().message;
  }
};

}  // namespace

TEST_CASE("a Program by hand that is right passes its check") { CHECK(Halves().refusal().empty()); }

TEST_CASE("tasks that come too early, or in an iteration that is not there, are refused") {
  Halves b;
  b.program.dependencies[0] = TaskId(2);
  CHECK(b.refusal() == "task 2 depends on task 2, which does not come before it");
  b.program.dependencies[0] = TaskId();
  CHECK(b.refusal().starts_with("task 2 depends on task "));
  Halves late;
  late.program.tasks[1].iteration = 1;
  CHECK(late.refusal() == "task 1 is of iteration 1 of 1");
}

TEST_CASE("tasks with buffers that are not there, or elsewhere, are refused") {
  Halves b;
  b.program.operands[2] = BufferId(9);
  CHECK(b.refusal() == "task 1 names buffer 9, which does not exist");
  b.program.operands[2] = BufferId(0);
  CHECK(b.refusal() == "task 1 on device 1 uses buffer 0 of device 0");
  Halves sent;
  sent.sum().participants[1].send = BufferId(1);
  CHECK(sent.refusal() == "task 2 on device 1 uses buffer 1 of device 0");
  Halves joined;
  joined.sum().joined[0][0].receive = BufferId(3);
  CHECK(joined.refusal() == "task 2 on device 0 uses buffer 3 of device 1");
}

TEST_CASE("communications among devices that do not fit are refused") {
  Halves alone;
  alone.sum().participants.pop_back();
  CHECK(alone.refusal() == "task 2: a communication with 1 participants");
  Halves twice;
  twice.sum().participants[1].device = DeviceId(0);
  CHECK(twice.refusal() == "task 2: device 0 takes part twice");
  Halves beyond;
  beyond.sum().participants[1].device = DeviceId(7);
  CHECK(beyond.refusal() == "task 2: device 7 takes part, of 2");
  Halves swapped;
  std::swap(swapped.sum().joined[0][0], swapped.sum().joined[0][1]);
  CHECK(swapped.refusal() == "task 2: part 1 of a communication is among other devices");
  Halves fewer;
  fewer.sum().joined[0].pop_back();
  CHECK(fewer.refusal() == "task 2: part 1 of a communication is among other devices");
}

TEST_CASE("boxes that buffers do not hold are refused") {
  Halves b;
  b.sum().participants[0].piece = {{1, 0}, {2, 2}};
  CHECK(b.refusal() == "task 2 moves " + to_string(b.sum().participants[0].piece) + " of buffer 1, which holds " +
                           to_string(b.program.buffer(BufferId(1)).box));
  Halves exchanged;
  exchanged.sum().exchanges.push_back({0, 1, {{2, 0}, {2, 2}}});
  CHECK(exchanged.refusal().starts_with("task 2 moves "));
}
