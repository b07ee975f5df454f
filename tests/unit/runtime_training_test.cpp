#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/plan/lower.h"
#include "runtime/train.h"
#include "runtime/validate.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

std::string write(const std::string& name, const std::string& text) {
  std::string path =
      (std::filesystem::temp_directory_path() / ("unity-" + std::to_string(getpid()) + "-" + name)).string();
  std::ofstream(path) << text;
  return path;
}

// y = x w, loss = mean (y - t)^2, on one device.
Program linear(OptimizerSpec optimizer) {
  Builder b("linear");
  ValueRef x = b.input("x", {2, 1}), t = b.input("t", {2, 1}), w = b.weight("w", {1, 1}, "ones");
  Pcg g = std::move(b).finish({b.apply("mean_squared_error", {}, {b.apply("matmul", {}, {x, w}), t})});
  return lower(g, natural_mappings(g), uniform_topology(1), {true, optimizer}).value();
}

HostTensor column(double a, double b) {
  HostTensor t = real_tensor({2, 1});
  t.reals = {a, b};
  return t;
}

// Of two features into three classes, and its forward pass, on one device.
std::pair<Program, Program> classifier() {
  Builder b("classify");
  ValueRef x = b.input("x", {2, 2}), labels = b.input("labels", {2}, DType::i32);
  ValueRef logits = b.apply("matmul", {}, {x, b.weight("w", {2, 3})});
  Pcg g = std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}), logits});
  return {lower(g, natural_mappings(g), uniform_topology(1), {}).value(),
          lower(g, natural_mappings(g), uniform_topology(1), {false, {}}).value()};
}

std::string rows(const std::string& row) { return row + row + row + row + row; }

}  // namespace

TEST_CASE("one step of SGD on y = x w, by hand") {
  // x = (1, 2), t = (3, 5), w = 1: residuals -2, -3; loss (4 + 9) / 2; gradient (2 * -2 * 1 + 2 * -3 * 2) / 2 = -8.
  Program program = linear({.name = "sgd", .learning_rate = 0.1});
  Executor executor(program, {"cpu", Precision::f64, 1});
  executor.set_input("x", column(1, 2));
  executor.set_input("t", column(3, 5));
  CHECK(executor.step().loss == Approx(6.5));
  CHECK(executor.gradient("w").reals[0] == Approx(-8));
  CHECK(executor.weight("w").reals[0] == Approx(1.8));
}

TEST_CASE("the first step of Adam moves a weight by the learning rate") {
  Program program = linear({.name = "adam", .learning_rate = 0.01});
  Executor executor(program, {"cpu", Precision::f64, 1});
  executor.set_input("x", column(1, 2));
  executor.set_input("t", column(3, 5));
  executor.step();
  CHECK(executor.weight("w").reals[0] == Approx(1.01));  // bias correction makes m / sqrt(v) the gradient's sign
}

TEST_CASE("inputs of another shape, and names that do not exist, are refused") {
  Program program = linear({});
  Executor executor(program);
  CHECK_THROWS_WITH(executor.set_input("x", real_tensor({3, 1})), Catch::Contains("expected f32[2, 1]"));
  CHECK_THROWS_WITH(executor.set_input("xx", column(1, 2)), Catch::Contains("did you mean 'x'?"));
  CHECK_THROWS_WITH(Executor(program, {"abacus", Precision::f32, 1}), Catch::Contains("known: cpu, cuda"));
  CHECK_THROWS_WITH(Executor(program, {"cpu", Precision::bf16, 1}), Catch::Contains("expected f32 or f64"));
}

TEST_CASE("a task that fails stops the step with its name, and the executor can go on") {
  Builder b("lookup");
  ValueRef ids = b.input("ids", {4}, DType::i32), table = b.weight("table", {8, 2});
  ValueRef labels = b.input("labels", {4}, DType::i32);
  ValueRef rows = b.apply("embedding", {}, {partition(b, 0, 2, ids), replicate(b, 2, table)}, "lookup");
  ValueRef loss = reduce(b, 2, b.apply("cross_entropy", {}, {rows, partition(b, 0, 2, labels)}));
  Pcg g = std::move(b).finish({loss});
  Program program = lower(g, natural_mappings(g), uniform_topology(2), {}).value();
  Executor executor(program, {"cpu", Precision::f64, 1});
  HostTensor bad = index_tensor({4}), good = index_tensor({4});
  bad.indices[3] = 99;
  executor.set_input("labels", good);
  executor.set_input("ids", bad);
  CHECK_THROWS_WITH(executor.step(), Catch::Contains("embedding lookup") && Catch::Contains("device 1"));
  executor.set_input("ids", good);
  CHECK(std::isfinite(executor.step().loss));
}

TEST_CASE("a measured trace has a span for every task on every device it runs on") {
  Builder b("g");
  ValueRef x = partition(b, 0, 2, b.input("x", {4, 3})), w = replicate(b, 2, b.weight("w", {3, 2}));
  ValueRef y = partition(b, 0, 2, b.input("y", {4, 2}));
  ValueRef loss = reduce(b, 2, b.apply("mean_squared_error", {}, {b.apply("matmul", {}, {x, w}), y}));
  Pcg g = std::move(b).finish({loss});
  Program program = lower(g, natural_mappings(g), uniform_topology(2), {}).value();
  Trace trace = measure(program, {}).trace;
  std::size_t expected = 0;
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    expected += program.devices_of(TaskId(static_cast<std::int64_t>(t))).size();
  CHECK(trace.spans.size() == expected);
  CHECK(trace.program == program_hash(program));
  for (const Span& s : trace.spans) CHECK(s.start <= s.end);
  CHECK(task_names(program).size() == program.tasks.size());
}

TEST_CASE("data with more classes than the model tells apart, or with other features, are refused before training") {
  auto [training, evaluation] = classifier();
  TrainOptions options;
  options.data = write("suits.csv", rows("1,2,2\n"));
  CHECK(train(training, &evaluation, options).accuracy.has_value());
  options.data = write("classes.csv", rows("1,2,3\n"));
  CHECK_THROWS_WITH(train(training, &evaluation, options),
                    Catch::Contains("labels up to 3, expected below the model's 3 classes"));
  options.data = write("features.csv", rows("1,2,3,0\n"));
  CHECK_THROWS_WITH(train(training, &evaluation, options), Catch::Contains("3 features"));
}

TEST_CASE("the memory that training takes has the evaluation's in it where there are test rows") {
  auto [training, evaluation] = classifier();
  const Bytes alone = Executor(training).memory()[0], more = Executor(evaluation).memory()[0];
  REQUIRE(more.count > 0);
  TrainOptions options;
  options.steps = 1;
  options.data = write("tested.csv", rows("1,2,2\n"));
  CHECK(train(training, &evaluation, options).memory == std::vector<Bytes>{alone + more});
  CHECK(train(training, nullptr, options).memory == std::vector<Bytes>{alone});
  options.data = "synthetic";
  options.index_bounds = {{"labels", 3}};
  CHECK(train(training, &evaluation, options).memory == std::vector<Bytes>{alone});
}

TEST_CASE("an evaluation that cannot be run is refused before the first step") {
  auto [training, evaluation] = classifier();
  evaluation.devices = 0;
  TrainOptions options;
  options.epochs = 2, options.evaluate_every = 1;
  options.data = write("refused.csv", rows("1,2,2\n"));
  int steps = 0;
  options.progress = [&](auto...) { ++steps; };
  CHECK_THROWS(train(training, &evaluation, options));
  CHECK(steps == 0);
}

TEST_CASE("a second output that has not a number for each class of each label is none of logits") {
  Builder b("two outputs");
  ValueRef x = b.input("x", {2, 2}), labels = b.input("labels", {2}, DType::i32);
  ValueRef logits = b.apply("matmul", {}, {x, b.weight("w", {2, 3})}),
           summed = b.apply("reduce_sum", {Integers{1}}, {logits});
  Pcg g = std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}), summed});
  Program training = lower(g, natural_mappings(g), uniform_topology(1), {}).value(),
          evaluation = lower(g, natural_mappings(g), uniform_topology(1), {false, {}}).value();
  TrainOptions options;
  options.data = write("two.csv", rows("1,2,2\n"));
  options.index_bounds = {{"labels", 3}};
  TrainResult r = train(training, &evaluation, options);
  CHECK_FALSE(r.accuracy.has_value());
  CHECK(r.evaluations.size() == 1);
}

TEST_CASE("data for a model without inputs are refused") {
  Builder b("no inputs");
  ValueRef w = b.weight("w", {2, 2});
  Pcg g = std::move(b).finish({b.apply("mean_squared_error", {}, {w, b.weight("v", {2, 2})})});
  Program training = lower(g, natural_mappings(g), uniform_topology(1), {}).value();
  TrainOptions options;
  options.data = write("none.csv", rows("1,2,2\n"));
  CHECK_THROWS_WITH(train(training, nullptr, options), Catch::Contains("it has none"));
}
