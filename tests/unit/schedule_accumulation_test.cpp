// Gradients that are added up by the operators that compute them.
#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/plan/lower.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

Program on_one_device(const Pcg& model) {
  return lower(model, std::vector<MachineMapping>(model.size()), uniform_topology(1)).value();
}

// Of the backward pass: tasks that only add, and by operator those that add to a sum.
int additions(const Program& program) {
  return static_cast<int>(std::count_if(program.tasks.begin(), program.tasks.end(),
                                        [](const Task& t) { return t.kind == TaskKind::accumulate; }));
}
std::map<std::string, int> adding(const Program& program) {
  std::map<std::string, int> found;
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::compute)
      if (const Operator* op = program.ops[static_cast<std::size_t>(t.op)].op; op->accumulates()) ++found[op->name()];
  return found;
}

using Counts = std::map<std::string, int>;

}  // namespace

TEST_CASE("what goes around a block is added by the product that ends its way through the block") {
  Builder b("residual");
  ValueRef x = b.apply("gelu", {}, {b.apply("matmul", {}, {b.input("x", {8, 6}), b.weight("v", {6, 6})})});
  ValueRef through = b.apply("matmul", {}, {x, b.weight("w", {6, 6})});
  ValueRef y = b.apply("add", {}, {x, b.apply("gelu", {}, {through})});
  Program program = on_one_device(std::move(b).finish({b.apply("mean_squared_error", {}, {y, b.input("t", {8, 6})})}));
  CHECK(additions(program) == 0);
  CHECK(adding(program) == Counts{{"matmul_accumulate", 1}});
  // It reads the gradient of y, which gelu's gradient reads, too, and writes a block of its own.
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::compute && program.ops[static_cast<std::size_t>(t.op)].op->accumulates()) {
      auto operands = program.operands_of(t);
      REQUIRE(operands.size() == 4);
      CHECK(operands[2] != operands[3]);
      CHECK(t.bytes == Approx(4.0 * (8 * 6 + 6 * 6 + 2 * 8 * 6)));
    }
}

TEST_CASE("gradients of queries, keys and values are added up in turn, in the place of the first") {
  Builder b("fork");
  ValueRef x = b.apply("gelu", {}, {b.apply("matmul", {}, {b.input("x", {8, 6}), b.weight("v", {6, 6})})});
  std::vector<ValueRef> results;
  for (const char* name : {"q", "k", "w"}) results.push_back(b.apply("matmul", {}, {x, b.weight(name, {6, 6})}));
  ValueRef y = b.apply("mul", {}, {b.apply("mul", {}, {results[0], results[1]}), results[2]});
  Program program = on_one_device(std::move(b).finish({b.apply("mean_squared_error", {}, {y, b.input("t", {8, 6})})}));
  CHECK(additions(program) == 0);
  CHECK(adding(program) == Counts{{"matmul_accumulate", 2}});
}

TEST_CASE("both gradients of a batch norm's operand, and of a convolution's around it, are one") {
  Builder b("norm");
  ValueRef x = b.apply("relu", {},
                       {b.apply("conv2d", {Integers{1, 1}, Integers{0, 0, 0, 0}, Integers{1, 1}, std::int64_t{1}},
                                {b.input("x", {2, 4, 3, 3}), b.weight("v", {4, 4, 1, 1})})});
  ValueRef c = b.apply("conv2d", {Integers{1, 1}, Integers{0, 0, 0, 0}, Integers{1, 1}, std::int64_t{1}},
                       {x, b.weight("w", {4, 4, 1, 1})});
  std::vector<ValueRef> moments = {b.apply("moments", {}, {c})};
  ValueRef square{moments[0].node, 1};
  ValueRef normal = b.apply("batch_norm", {}, {c, moments[0], square, b.weight("gamma", {4}), b.weight("beta", {4})});
  ValueRef y = b.apply("add", {}, {normal, x});
  Program program =
      on_one_device(std::move(b).finish({b.apply("mean_squared_error", {}, {y, b.input("t", {2, 4, 3, 3})})}));
  CHECK(additions(program) == 0);
  CHECK(adding(program) == Counts{{"conv2d_input_gradient_accumulate", 1}, {"moments_gradient_accumulate", 1}});
}

TEST_CASE("what can not add leaves a task that does") {
  Builder b("none");
  ValueRef x = b.apply("matmul", {}, {b.input("x", {8, 6}), b.weight("v", {6, 6})});
  ValueRef y = b.apply("add", {}, {x, b.apply("gelu", {}, {x})});
  Program program = on_one_device(std::move(b).finish({b.apply("mean_squared_error", {}, {y, b.input("t", {8, 6})})}));
  CHECK(additions(program) == 1);
  CHECK(adding(program).empty());
}
