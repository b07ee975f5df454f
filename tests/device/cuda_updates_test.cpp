// The optimizers' steps on a GPU: weights and states after several steps against those of the CPU in double precision,
// for dense weights and for tables that are updated by rows, on one logical device and on several.
#include <random>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/plan/row_updates.h"
#include "tests/device/gpu.h"
#include "tests/support/one_weight.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

// Two bags of three rows of a table of which each device holds a part, then a dense layer.
Pcg bags(int devices) {
  Builder b("bags");
  ValueRef ids = b.input("ids", {2, 3}, DType::i32), target = b.input("target", {2, 5});
  ValueRef table = b.weight("table", {12, 4});
  ValueRef shard = devices > 1 ? partition(b, 0, devices, table) : table;
  ValueRef y = b.apply("embedding_bag", {std::string("mean")}, {devices > 1 ? replicate(b, devices, ids) : ids, shard});
  if (devices > 1) y = reduce(b, devices, y);
  y = b.apply("matmul", {}, {y, b.weight("w", {4, 5})});
  return std::move(b).finish({b.apply("mean_squared_error", {}, {y, target})});
}

// After four steps, at two learning rates, of a run of which three steps were done before.
std::map<std::string, HostTensor> trained(const Program& program, const std::map<std::string, HostTensor>& inputs,
                                          const std::string& backend, Precision precision) {
  Executor executor(
      program,
      {.backend = backend, .precision = precision, .seed = 7, .one_device = shares_gpu(backend, program.devices)});
  for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
  executor.set_steps_done(3);
  for (int i = 0; i < 4; ++i) {
    executor.set_learning_rate_factor(i < 2 ? 1 : 0.5);
    executor.step();
  }
  std::map<std::string, HostTensor> all;
  for (const StateTensor& s : executor.state()) all.emplace(s.name, executor.state(s.name));
  return all;
}

void check_updates(const std::string& backend, Precision precision, double tolerance) {
  for (const char* text : {"sgd 0.1", "sgd 0.1 weight_decay=0.1", "sgd 0.1 momentum=0.9",
                           "sgd 0.1 momentum=0.9 nesterov weight_decay=0.05", "adam 0.01",
                           "adam 0.01 weight_decay=0.1 beta1=0.8", "adamw 0.01", "adamw 0.01 beta2=0.99 epsilon=1e-6"})
    for (int devices = 1; devices <= 3; ++devices) {
      Pcg pcg = bags(devices);
      Program program =
          lower(pcg, natural_mappings(pcg), uniform_topology(devices), {.optimizer = parse_optimizer(text)}).value();
      bool by_rows = std::any_of(program.tasks.begin(), program.tasks.end(), is_row_update);
      REQUIRE(by_rows == (std::string(text) == "sgd 0.1"));
      auto inputs = random_inputs(bags(1), 5);
      inputs.at("ids").indices = {4, 0, 4, 11, 7, 4};  // one row three times
      auto expected = trained(program, inputs, "cpu", Precision::f64);
      auto found = trained(program, inputs, backend, precision);
      for (const auto& [name, value] : expected) {
        HostTensor off = found.at(name);
        for (std::size_t i = 0; i < off.reals.size(); ++i) off.reals[i] -= value.reals[i];
        INFO(text << ", " << name << " on " << devices << " devices");
        CHECK(norm(off) <= tolerance * norm(value));
      }
    }
}

std::vector<double> losses(const Program& program, const std::map<std::string, HostTensor>& inputs,
                           const std::string& backend, Precision precision, int steps) {
  Executor executor(
      program,
      {.backend = backend, .precision = precision, .seed = 7, .one_device = shares_gpu(backend, program.devices)});
  for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) all.push_back(executor.step().loss);
  return all;
}

// A small BERT learns its batch by heart: each loss within `tolerance` of the first loss from that in double precision.
void check_small_bert(const std::string& backend, Precision precision, double tolerance) {
  Pcg pcg = build_model({"bert-tiny", {{"batch", 4}, {"seq-len", 16}, {"layers", 2}}});
  auto inputs = random_inputs(pcg, 3);
  Program program =
      lower(pcg, natural_mappings(pcg), uniform_topology(1), {.optimizer = parse_optimizer("adam 1e-3")}).value();
  std::vector<double> expected = losses(program, inputs, "cpu", Precision::f64, 20);
  REQUIRE(expected.back() < 0.7 * expected.front());
  std::vector<double> found = losses(program, inputs, backend, precision, 20);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("step " << i << ": " << found[i] << ", expected " << expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <= tolerance * expected[0]);
  }
}

// Steps of 1e-4 from 1, where neighbours in bf16 are 2^-8 or 2^-7 apart: they add up only in a weight held in f32.
void check_small_steps(const std::string& backend, Precision precision, double tolerance) {
  Program program = one_weight(parse_optimizer("sgd 1e-4"));
  Executor executor(program,
                    {.backend = backend, .precision = precision, .one_device = shares_gpu(backend, program.devices)});
  HostTensor x = real_tensor({2, 1}), t = real_tensor({2, 1});
  x.reals = {1, 1};
  t.reals = {0.5, 0.5};
  executor.set_input("x", x), executor.set_input("t", t);
  for (int i = 0; i < 50; ++i) executor.step();
  // w - 0.5 shrinks by 1 - 2e-4 in each step (the gradient is 2 (w - 0.5)): 0.5 (1 - 2e-4)^50 = 0.4950244.
  CHECK(executor.weight("w").reals[0] == Approx(0.9950244).margin(tolerance));
}

}  // namespace

TEST_CASE("optimizers on the CPU in single precision step as in double precision") {
  check_updates("cpu", Precision::f32, 1e-5);
}

TEST_CASE("optimizers on the GPU step as on the CPU, dense and by rows") {
  if (!gpu_or_skip()) return;
  SECTION("f64") { check_updates("cuda", Precision::f64, 1e-10); }
  SECTION("f32") { check_updates("cuda", Precision::f32, 1e-4); }
  SECTION("bf16") { check_updates("cuda", Precision::bf16, 0.1); }
}

TEST_CASE("a small BERT in single precision trains on the CPU as in double precision") {
  check_small_bert("cpu", Precision::f32, 1e-3);
}

TEST_CASE("a small BERT trains on the GPU in every precision much as in double precision on the CPU") {
  if (!gpu_or_skip()) return;
  SECTION("f32") { check_small_bert("cuda", Precision::f32, 1e-3); }
  SECTION("tf32") { check_small_bert("cuda", Precision::tf32, 0.02); }
  SECTION("bf16") { check_small_bert("cuda", Precision::bf16, 0.04); }
}

TEST_CASE("many steps too small for bf16 add up on the CPU") { check_small_steps("cpu", Precision::f32, 1e-6); }

TEST_CASE("many steps too small for bf16 add up in the weights of a GPU that computes in bf16") {
  if (!gpu_or_skip()) return;
  SECTION("f32") { check_small_steps("cuda", Precision::f32, 1e-6); }
  // What the products read is rounded: the gradient is off by at most 2^-8 / 0.5 of itself.
  SECTION("bf16") { check_small_steps("cuda", Precision::bf16, 1e-4); }
}
