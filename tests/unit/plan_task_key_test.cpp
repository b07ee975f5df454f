#include <catch2/catch.hpp>

#include "core/plan/collective_key.h"
#include "core/plan/row_updates.h"
#include "core/plan/task_key.h"
#include "tests/support/runtime_program.h"

using namespace unity;
using namespace unity::test;

namespace {

// Blocks of logical tensors twice their size: keys speak of the blocks.
struct Blocks : ProgramByHand {
  BufferId block(const Dims& extent, int device = 0) {
    Dims dims = extent;
    dims[0] *= 2;
    return buffer(tensor("t", dims), device, Box{Dims(extent.size(), 0), extent});
  }
  std::string key(std::size_t task) const { return task_key(program, program.tasks[task]); }
};

}  // namespace

TEST_CASE("the key of a compute task is operator, attributes and local blocks") {
  Blocks b;
  b.compute("matmul", {std::string("relu")}, {b.block({2, 3}), b.block({3, 4}), b.block({2, 4})});
  b.compute("tanh", {}, {b.block({2, 3}), b.block({2, 3})});
  CHECK(b.key(0) == R"(matmul{"relu", 0}(f32[2, 3], f32[3, 4]) -> f32[2, 4])");
  CHECK(b.key(1) == "tanh(f32[2, 3]) -> f32[2, 3]");
  CHECK(task_curve(b.program, b.program.tasks[0]).name.empty());
}

TEST_CASE("equal tasks on other devices and at other places have equal keys") {
  Blocks b;
  BufferId second = b.buffer(b.tensor("t", {4, 3}), 1, Box{{2, 0}, {2, 3}});
  b.compute("tanh", {}, {b.block({2, 3}), b.block({2, 3})});
  b.compute("tanh", {}, {second, b.block({2, 3}, 1)});
  CHECK(b.key(0) == b.key(1));
}

TEST_CASE("the key of an update names the kind of the optimizer; its curve counts elements") {
  Blocks b;
  b.update({b.block({2, 3}), b.block({2, 3}), b.block({2, 3})}, {});
  b.program.optimizer = parse_optimizer("sgd 0.1 momentum=0.9");
  CHECK(b.key(0) == "update sgd momentum(f32[2, 3])");
  TaskCurve curve = task_curve(b.program, b.program.tasks[0]);
  CHECK(curve.name == "update sgd momentum");
  CHECK(curve.amount == 6);
}

TEST_CASE("the key of a communication is its kind, its group and its piece; its curve counts bytes of all pieces") {
  Blocks b;
  Communication c;
  c.kind = CollectiveKind::all_gather;
  for (int d = 0; d < 2; ++d) {
    Box piece{{2 * d, 0}, {2, 3}};
    std::int32_t t = b.tensor("t", {4, 3});
    c.participants.push_back({DeviceId(d), b.buffer(t, d, piece), b.buffer(t, d, whole_box({4, 3})), piece});
  }
  b.communicate(c, {});
  CHECK(b.key(0) == "all_gather of 2(f32[2, 3] to f32[4, 3])");
  TaskCurve curve = task_curve(b.program, b.program.tasks[0]);
  CHECK(curve.name == "all_gather of 2");
  CHECK(curve.amount == 48);
}

TEST_CASE("a collective is known by its kind, how its group lies, and the bytes of all pieces and parts") {
  Topology machine = load_topology("dgx-a100", {.nodes = 2});
  Blocks b;
  Communication c;
  c.kind = CollectiveKind::all_gather;
  for (int d : {1, 9}) {
    Box piece{{d, 0}, {1, 3}};
    std::int32_t t = b.tensor("t", {16, 3});
    c.participants.push_back({DeviceId(d), b.buffer(t, d, piece), b.buffer(t, d, whole_box({16, 3})), piece});
  }
  CollectiveKey key = collective_key(c, machine);
  CHECK(key.name == "all_gather of 2 node");
  CHECK(key.bytes == 2 * 3 * 4);
  c.kind = CollectiveKind::all_reduce;
  c.joined = {c.participants};
  key = collective_key(c, machine);
  CHECK(key.name == "all_reduce of 2 node");
  CHECK(key.bytes == 2 * 3 * 4);  // one piece of each part
}
