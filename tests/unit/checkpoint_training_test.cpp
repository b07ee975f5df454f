// Training with checkpoints, schedules, evaluation and early stopping.

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "runtime/train.h"
#include "tests/support/one_weight.h"

using namespace unity;
using namespace unity::test;

namespace {

namespace fs = std::filesystem;

fs::path place(const std::string& name) {
  fs::path path = fs::temp_directory_path() / fmt::format("unity-{}-{}", getpid(), name);
  fs::remove_all(path);
  return path;
}

// Two classes that a line tells apart: 25 rows, 20 of them to train on.
std::string rows() {
  std::string path = place("rows.csv").string();
  std::ofstream out(path);
  for (int i = 0; i < 25; ++i) out << (i % 5) - 2 << ',' << (i * 7 % 11) - 5 << ',' << (i % 5 > i * 7 % 11 - 3) << '\n';
  return path;
}

struct Classifier {
  Program training, evaluation;
  explicit Classifier(const std::string& optimizer, std::int64_t batch = 4) {
    Builder b("classify");
    ValueRef x = b.input("x", {batch, 2}), labels = b.input("labels", {batch}, DType::i32);
    ValueRef logits = b.apply("matmul", {}, {x, b.weight("w", {2, 2})});
    Pcg g = std::move(b).finish({b.apply("cross_entropy", {}, {logits, labels}), logits});
    training = lower(g, natural_mappings(g), uniform_topology(1), {true, parse_optimizer(optimizer)}).value();
    evaluation = lower(g, natural_mappings(g), uniform_topology(1), {false, {}}).value();
  }
  TrainResult run(const TrainOptions& options) const { return train(training, &evaluation, options); }
};

TrainOptions on_rows(std::int64_t epochs) {
  TrainOptions options;
  options.data = rows();
  options.executor = {"cpu", Precision::f64, 3};
  options.epochs = epochs;
  return options;
}

std::vector<double> from(const std::vector<double>& list, std::int64_t first) {
  return {list.begin() + static_cast<std::ptrdiff_t>(first), list.end()};
}

}  // namespace

TEST_CASE("a run stopped in the middle of an epoch goes on as if it had not been: losses, epochs, best epoch") {
  Classifier model("adam 0.05");
  TrainOptions options = on_rows(6);  // 5 batches in each
  options.evaluate_every = 1;
  options.schedule = parse_schedule("cosine warmup=3 min=1e-3");
  TrainResult whole = model.run(options);
  REQUIRE(whole.losses.size() == 30);
  CHECK(whole.evaluations.size() == 6);

  options.checkpoint = {place("middle"), 4, 2};
  options.schedule.steps = 30;
  options.steps = 13;
  TrainResult begun = model.run(options);
  CHECK(begun.losses == std::vector<double>(whole.losses.begin(), whole.losses.begin() + 13));
  options.steps = 0;
  options.checkpoint.resume = true;
  TrainResult rest = model.run(options);
  CHECK(rest.first_step == 13);
  CHECK(rest.losses == from(whole.losses, 13));
  CHECK(rest.rates == from(whole.rates, 13));
  CHECK(rest.epoch_losses == from(whole.epoch_losses, 2));  // the third epoch's mean is over all of it
  CHECK(rest.accuracy == whole.accuracy);
  CHECK(rest.best == whole.best);
  TrainResult done = model.run(options);  // nothing is left to do but to evaluate
  CHECK(done.losses.empty());
  CHECK(done.accuracy == whole.accuracy);
}

TEST_CASE("a run that is not resumed does not mix its checkpoints with older ones") {
  Classifier model("sgd 0.1");
  TrainOptions options = on_rows(1);
  options.checkpoint = {place("again")};
  model.run(options);
  CHECK_THROWS_WITH(model.run(options), Catch::Contains("holds a checkpoint of step 5"));
}

TEST_CASE("with another batch, a resumed run goes on at the first batch of the epoch that was not begun") {
  // 3 batches of 4 are 12 rows, so 2 of the 5 batches of 4 are left: with batches of 5, rows 15 to 20 are.
  TrainOptions options = on_rows(1);
  options.checkpoint = {place("batch")};
  options.steps = 3;
  const std::vector<double> before = Classifier("sgd 0.1", 4).run(options).losses;
  options.steps = 0;
  options.checkpoint.resume = true;
  const TrainResult rest = Classifier("sgd 0.1", 5).run(options);
  REQUIRE(rest.losses.size() == 1);
  // The 12 rows count for as many batches of 5 as are not done again, 3 of 4.
  REQUIRE(rest.epoch_losses.size() == 1);
  CHECK(rest.epoch_losses[0] == Approx((before[0] + before[1] + before[2] + rest.losses[0]) / 4));
}

TEST_CASE("the schedule sets the rate of each step") {
  Program program = one_weight(parse_optimizer("sgd 0.5"));
  TrainOptions options;
  options.executor = {"cpu", Precision::f64, 1};
  options.steps = 3;
  options.schedule = parse_schedule("linear steps=2");
  TrainResult r = train(program, nullptr, options);
  CHECK(r.rates == std::vector<double>{0.5, 0.25, 0});
}

TEST_CASE("a factor on the learning rate scales the step of SGD") {
  Program program = one_weight(parse_optimizer("sgd 0.1"));
  Executor executor(program, {"cpu", Precision::f64, 1});
  HostTensor x = real_tensor({2, 1}), t = real_tensor({2, 1});
  x.reals = {1, 2}, t.reals = {3, 5};  // gradient -8
  executor.set_input("x", x), executor.set_input("t", t);
  executor.set_learning_rate_factor(0.25);
  executor.step();
  CHECK(executor.weight("w").reals[0] == Approx(1.2));  // 1 + 0.025 * 8
}

TEST_CASE("training stops after so many evaluations without a better one, and says which was the best") {
  BestEpoch best;
  for (auto [metric, epoch] : {std::pair{0.5, 1}, {0.7, 2}, {0.7, 3}, {0.6, 4}}) best.see(metric, epoch, true);
  CHECK(best == BestEpoch{"", 0.7, 2, 2});
  CHECK(best.give_up(2));
  CHECK_FALSE(best.give_up(3));
  CHECK_FALSE(best.give_up(0));

  TrainOptions options = on_rows(50);
  options.patience = 2;
  TrainResult r = Classifier("sgd 1e-12").run(options);  // does not get better
  CHECK(r.stopped_early);
  CHECK(r.evaluations.size() == 3);
  CHECK(r.best->epoch == 1);
  CHECK(r.losses.size() == 15);
  options.data = "synthetic";
  CHECK_THROWS_WITH(Classifier("sgd 0.1").run(options), Catch::Contains("no test rows to watch"));
}

TEST_CASE("a resumed run that watches another metric, or other data, does not compare with the best of before") {
  Classifier model("sgd 1e-12");  // does not get better
  TrainOptions options = on_rows(2);
  options.evaluate_every = 1;
  options.checkpoint = {place("metric")};
  const BestEpoch of_accuracy = model.run(options).best.value();
  CHECK(of_accuracy.metric == "accuracy");
  options.epochs = 4;
  options.checkpoint.resume = true;
  options.watch_loss = true;
  TrainResult r = model.run(options);
  CHECK(r.best->metric == "loss");
  CHECK(r.best->epoch >= 3);
  options.epochs = 5;
  CHECK(model.run(options).best->epoch >= 3);  // the same metric: goes on
  // The same file by another path: no step is left, and the best stays.
  options.data = (fs::path(options.data).parent_path() / "." / fs::path(options.data).filename()).string();
  const TrainResult same = model.run(options);
  CHECK(same.losses.empty());
  CHECK(same.best->epoch >= 3);
  // Likewise a copy of it.
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& what) { warnings.push_back(what); };
  options.data = place("others.csv").string();
  fs::copy_file(rows(), options.data);
  CHECK(model.run(options).losses.empty());
  CHECK(warnings.empty());
  // Others in its place.
  std::ofstream(options.data, std::ios::app) << "1,1,0\n";
  options.epochs = 1;
  const TrainResult other = model.run(options);
  CHECK(other.losses.size() == 5);
  CHECK(other.best->waited == 0);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains("others.csv are other data than those of the checkpoint"));
  CHECK_THAT(warnings[0], Catch::EndsWith("rows.csv: their first epoch begins, behind step 25"));
}

TEST_CASE("where training stops early, the trace is of the last step there was") {
  TrainOptions options = on_rows(50);
  options.patience = 1, options.trace = true;
  TrainResult r = Classifier("sgd 1e-12").run(options);
  REQUIRE(r.stopped_early);
  CHECK(r.trace.has_value());
}

TEST_CASE("the test loss is the mean over the rows, whatever the batch") {
  std::vector<double> losses;
  for (std::int64_t batch : {1, 2, 4, 5, 7}) {  // of 5 test rows
    TrainOptions options = on_rows(1);
    TrainResult r = Classifier("sgd 1e-300", batch).run(options);
    REQUIRE(r.evaluations.size() == 1);
    losses.push_back(r.evaluations[0].loss);
  }
  for (double loss : losses) CHECK(loss == Approx(losses[0]).epsilon(1e-12));
}
