// What processes that train together must have alike (runtime/agreement.h), on a transport in memory.

#include <fstream>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "runtime/agreement.h"
#include "runtime/train.h"
#include "runtime/validate.h"
#include "tests/support/command.h"
#include "tests/support/fake_processes.h"
#include "tests/support/plan_builder.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

Program mlp() {
  Pcg serial = normalize(build_model({"mlp-tiny", {{"batch", 12}}}));
  auto state = apply_move({serial, {}, {}}, {Move::Kind::replicate_all, 0, 0, 2});
  REQUIRE(state.ok());
  return lower(state->pcg, test::natural_mappings(state->pcg), uniform_topology(2),
               {true, parse_optimizer("sgd 0.01 momentum=0.9")})
      .value();
}

// Rows of 64 pixels and a digit; in row `other`, one pixel is another.
std::string write_rows(const std::string& path, int rows, int other = -1) {
  std::ofstream file(path);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < 64; ++c) file << (r * 7 + c) % 17 + (r == other && c == 5 ? 1 : 0) << ',';
    file << r % 10 << '\n';
  }
  return path;
}

// What each of two processes ends with, of which the second one trains in a way of its own.
std::vector<Outcome> train_both(const TrainOptions& first, const TrainOptions& second,
                                std::vector<double>* losses = nullptr) {
  Program program = mlp();
  return on_processes(2, [&](Processes& p) {
    TrainOptions options = p.rank() == 0 ? first : second;
    options.executor.processes = &p;
    TrainResult result = train(program, nullptr, options);
    if (losses && p.rank() == 0) *losses = result.losses;
  });
}

void check_refused(const std::vector<Outcome>& outcomes, const std::vector<std::string>& parts) {
  for (const Outcome& o : outcomes)
    for (const std::string& part : parts) CHECK_THAT(o.error, Catch::Contains(part));
}

TrainOptions synthetic(std::int64_t steps) {
  TrainOptions options;
  options.index_bounds = {{"labels", 10}};
  options.steps = steps;
  return options;
}

}  // namespace

TEST_CASE("processes that are to train otherwise are refused at the start, by what differs") {
  check_refused(train_both(synthetic(3), synthetic(2)),
                {"how to train, expected the same everywhere", "rank 0 has 3 steps", "rank 1 has 2 steps"});
  TrainOptions warm = synthetic(3);
  warm.schedule = parse_schedule("cosine warmup=2");
  check_refused(train_both(synthetic(3), warm), {"rates constant", "rates cosine, warm-up 2"});
  TrainOptions watched = synthetic(3);
  watched.check_replicas_every = 2;
  check_refused(train_both(synthetic(3), watched), {"copies of weights compared every 2"});
  TrainOptions threads = synthetic(3);  // sums depend on them
  threads.executor.threads = 2;
  check_refused(train_both(threads, synthetic(3)),
                {"rank 0 has ", " in f32 from 1 on 2 threads a device, rank 1 has "});
  for (const Outcome& o : train_both(synthetic(3), synthetic(3))) CHECK(o.error.empty());
}

TEST_CASE("processes that are to measure otherwise are refused at the start") {
  Program program = mlp();
  auto both = [&](int first, int second) {
    return on_processes(2, [&](Processes& p) {
      MeasureOptions options;
      options.executor.processes = &p;
      options.index_bounds = {{"labels", 10}};
      options.steps = p.rank() == 0 ? first : second;
      measure(program, options);
    });
  };
  check_refused(both(2, 3),
                {"how to measure, expected the same everywhere", "rank 0 has 2 steps", "rank 1 has 3 steps"});
  for (const Outcome& o : both(2, 2)) CHECK(o.error.empty());
}

TEST_CASE("processes whose data differ are refused, wherever these lie") {
  command::Folder folder;
  TrainOptions ours = synthetic(5), theirs = ours;
  ours.in_order = theirs.in_order = true;
  ours.data = write_rows(folder.file("ours.csv"), 60);
  theirs.data = write_rows(folder.file("theirs.csv"), 60);
  std::vector<double> together;
  for (const Outcome& o : train_both(ours, theirs, &together)) CHECK(o.error.empty());
  Program program = mlp();
  CHECK(train(program, nullptr, ours).losses == together);
  theirs.data = write_rows(folder.file("sampled.csv"), 60, 3);
  check_refused(train_both(ours, theirs), {"the data, expected the same", "rank 1 has 60 rows to train on"});
  // Rows that are not among those by which data are told apart.
  theirs.data = write_rows(folder.file("first.csv"), 60, 4);
  check_refused(train_both(ours, theirs),
                {"the rows of the first batch", "rank 0 has contents", "rank 1 has contents"});
  theirs.data = write_rows(folder.file("later.csv"), 60, 40);
  check_refused(train_both(ours, theirs), {"the rows up to step 5", "rank 0 has contents", "rank 1 has contents"});
  theirs.data = write_rows(folder.file("more.csv"), 61);
  check_refused(train_both(ours, theirs), {"rank 0 has 60 rows to train on", "rank 1 has 61 rows to train on"});
}

TEST_CASE("processes whose initial values differ are refused") {
  command::Folder folder;
  Program program = mlp();
  for (std::uint64_t seed : {1u, 2u}) {  // gradients have the names and shapes of the weights
    TrainOptions options = synthetic(1);
    options.executor.seed = seed;
    options.gradients_file = folder.file(fmt::format("{}.safetensors", seed));
    train(program, nullptr, options);
  }
  TrainOptions ours = synthetic(2), theirs = ours;
  ours.weights_file = theirs.weights_file = folder.file("1.safetensors");
  for (const Outcome& o : train_both(ours, theirs)) CHECK(o.error.empty());
  theirs.weights_file = folder.file("2.safetensors");
  check_refused(train_both(ours, theirs), {"the initial values", "rank 0 has contents", "rank 1 has contents"});
}
