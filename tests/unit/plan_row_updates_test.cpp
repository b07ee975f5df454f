#include <algorithm>

#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "core/plan/row_updates.h"
#include "runtime/cpu/optimizers.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// Two bags of three rows of a table [1000, 4]; twice: the table is looked up in a second time.
Pcg bags(bool twice) {
  Builder b("bags");
  ValueRef ids = b.input("ids", {2, 3}, DType::i32), target = b.input("target", {2, 4});
  ValueRef table = b.weight("table", {1000, 4});
  ValueRef y = b.apply("embedding_bag", {std::string("mean")}, {ids, table});
  if (twice) y = b.apply("add", {}, {y, b.apply("embedding_bag", {}, {ids, table})});
  return std::move(b).finish({b.apply("mean_squared_error", {}, {y, target})});
}

Program program_of(const Pcg& pcg, const OptimizerSpec& optimizer = {}) {
  Program program = lower(pcg, natural_mappings(pcg), uniform_topology(1), {.optimizer = optimizer}).value();
  check_program(program).value();
  return program;
}

std::int64_t row_updates(const Program& program) {
  return std::count_if(program.tasks.begin(), program.tasks.end(), is_row_update);
}

}  // namespace

TEST_CASE("plain gradient descent updates the rows of a table that were looked up, and forms no gradient") {
  Program program = program_of(bags(false));
  REQUIRE(row_updates(program) == 1);
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::compute)
      CHECK(program.ops[static_cast<std::size_t>(t.op)].op->name() != "embedding_bag_gradient");
  const Task& update = *std::find_if(program.tasks.begin(), program.tasks.end(), is_row_update);
  CHECK(row_update_factor(program, update) == 1.0 / 3);
  // 6 ids, 6 rows of 4 read and written, 2 rows of dy, all of 4 bytes.
  CHECK(update.bytes == (6 + 2 * 6 * 4 + 2 * 4) * 4);
}

TEST_CASE("momentum, decay, other optimizers and sums of gradients need all of a table's gradient") {
  CHECK(row_updates(program_of(bags(false), parse_optimizer("sgd 0.1 momentum=0.9"))) == 0);
  CHECK(row_updates(program_of(bags(false), parse_optimizer("sgd 0.1 weight_decay=0.1"))) == 0);
  CHECK(row_updates(program_of(bags(false), parse_optimizer("adam 0.1"))) == 0);
  CHECK(row_updates(program_of(bags(true))) == 0);
}

TEST_CASE("an update by rows leaves other rows and other shards alone") {
  std::vector<double> table = {1, 1, 2, 2, 3, 3}, dy = {10, 20, 30, 40};
  std::vector<std::int32_t> ids = {4, 0, 4, 6};  // two of each row of dy; the block holds rows 4, 5, 6 of 8
  cpu::sgd_rows_step({table.data(), DType::f64, {3, 2}, {4, 0}, {8, 2}},
                     {ids.data(), DType::i32, {2, 2}, {0, 0}, {2, 2}}, {dy.data(), DType::f64, {2, 2}, {0, 0}, {2, 2}},
                     0.5);
  CHECK(table == std::vector<double>{1 - 5 - 15, 1 - 10 - 20, 2, 2, 3 - 15, 3 - 20});
}

TEST_CASE("a lookup is counted for the rows it reads, not for its table") {
  Program program = program_of(bags(false));
  double forward = 0;
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::compute && program.ops[static_cast<std::size_t>(t.op)].op->name() == "embedding_bag")
      forward = t.bytes;
  // 6 ids, 6 rows of 4, 2 bags of 4.
  CHECK(forward == (6 + 6 * 4 + 2 * 4) * 4);
}
