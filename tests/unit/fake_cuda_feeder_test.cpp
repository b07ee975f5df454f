// Batches that are read and prepared while a GPU, played on the host, runs the step before.
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "runtime/feeder.h"
#include "runtime/train.h"
#include "tests/support/command.h"
#include "tests/support/fake_plugin.h"
#include "tests/support/one_weight.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

Program on_one_device(const ModelSpec& spec, bool training = true) {
  Pcg pcg = build_model(spec);
  return lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1),
               {training, parse_optimizer("sgd 0.05")})
      .value();
}

}  // namespace

TEST_CASE("a batch that is prepared and then set is as one that is set at once, in every precision and layout") {
  fake();
  for (const ModelSpec& spec :
       {ModelSpec{"bert-tiny", {{"batch", 3}}},
        ModelSpec{"resnext-50", {{"batch", 2}, {"image", 48}, {"blocks", 1}, {"divisor", 32}, {"groups", 2}}}}) {
    Program program = on_one_device(spec);
    auto first = random_inputs(build_model(spec), 3), second = random_inputs(build_model(spec), 4);
    for (Precision precision : {Precision::f64, Precision::f32, Precision::tf32, Precision::bf16})
      for (const char* layout : {"rows", "channels-last"}) {
        CAPTURE(spec.name, to_string(precision), layout);
        fake().environment("UNITY_CUDA_LAYOUT", layout);
        Executor once(program, {.backend = "cuda", .precision = precision, .seed = 7}),
            ahead(program, {.backend = "cuda", .precision = precision, .seed = 7});
        REQUIRE(ahead.leaves_host_free());
        for (const auto* batch : {&first, &second, &first}) {
          for (const ProgramLeaf& leaf : once.inputs()) once.set_input(leaf.name, batch->at(leaf.name));
          ahead.set_inputs(ahead.prepare(*batch));
          CHECK(once.step().loss == ahead.step().loss);
        }
      }
  }
  fake().environment("UNITY_CUDA_LAYOUT", nullptr);
}

TEST_CASE("a feeder gives batches in order, reads one ahead, and throws when it is a batch's turn") {
  fake();
  Program program = one_weight(parse_optimizer("sgd 0.1"));
  for (const char* backend : {"cpu", "cuda"}) {
    CAPTURE(backend);
    Executor executor(program, {.backend = backend, .precision = Precision::f64});
    std::atomic<int> made = 0;
    auto next = [&] {
      const int number = made++;
      if (number == 3) throw InputError("the fourth");
      HostTensor x = real_tensor({2, 1}), t = real_tensor({2, 1});
      x.reals = {number + 1.0, 0}, t.reals = {0, 0};
      return Feeder::Batch{{"x", x}, {"t", t}};
    };
    {
      Feeder feeder(executor, next);
      double weight = 1;  // initially
      for (int number = 0; number < 3; ++number) {
        const Feeder::Batch batch = feeder.feed(true);
        CHECK(batch.at("x").reals[0] == number + 1);
        const double y = weight * (number + 1);
        CHECK(executor.step().loss == Approx(y * y / 2));
        weight -= 0.1 * y * (number + 1);
      }
      CHECK_THROWS_WITH(feeder.feed(true), "the fourth");
    }
    made = 0;
    Feeder feeder(executor, next);
    feeder.feed(false);
    executor.step();
    CHECK(made == 1);
  }
}

TEST_CASE("training on a GPU goes through the rows as on a CPU, from epoch to epoch, and on from a checkpoint") {
  fake();
  command::Folder folder;
  std::ofstream rows(folder.file("rows.csv"));
  for (int r = 0; r < 27; ++r) {
    for (int c = 0; c < 64; ++c) rows << (r * 7 + c * c) % 17 / 16.0 << ',';
    rows << r % 10 << '\n';
  }
  rows.close();
  const Program training = on_one_device({"mlp-tiny", {{"batch", 4}}}),
                evaluation = on_one_device({"mlp-tiny", {{"batch", 4}}}, false);
  auto options = [&](const char* backend) {
    TrainOptions o;
    o.executor = {.backend = backend, .precision = Precision::f64, .seed = 5};
    o.data = folder.file("rows.csv");
    o.epochs = 3, o.evaluate_every = 1;
    return o;
  };
  const TrainResult expected = train(training, &evaluation, options("cpu"));
  REQUIRE(expected.losses.size() == 15);
  auto check = [&](const TrainResult& found, std::size_t first) {
    REQUIRE(found.losses.size() == expected.losses.size() - first);
    for (std::size_t i = 0; i < found.losses.size(); ++i)
      CHECK(found.losses[i] == Approx(expected.losses[first + i]).epsilon(1e-9));
    CHECK(found.evaluations.back().loss == Approx(expected.evaluations.back().loss).epsilon(1e-9));
    CHECK(found.feed_seconds > 0);
  };
  check(train(training, &evaluation, options("cuda")), 0);
  TrainOptions part = options("cuda");
  part.checkpoint = {folder.file("checkpoints")};
  part.steps = 7;
  train(training, &evaluation, part);
  part.steps = 0, part.checkpoint.resume = true;
  check(train(training, &evaluation, part), 7);
}
