// What changes from step to step on a GPU though a captured graph of the step does not: random masks and inputs; and
// what a traced step tells.
#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/plan/repeat.h"
#include "core/search/search.h"
#include "tests/device/gpu.h"
#include "tests/support/plan_builder.h"
#include "tests/support/runtime_program.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

// y = x * mask, of which each of two devices makes half of the rows.
Program dropout() {
  ProgramByHand h;
  std::int32_t x = h.leaf("x", "input", {Dims{8, 6}, std::string("f32")});
  std::int32_t mask = h.tensor("mask", {8, 6}), y = h.tensor("y", {8, 6});
  std::vector<BufferId> results;
  for (int device = 0; device < 2; ++device) {
    Box box{{4 * device, 0}, {4, 6}};
    BufferId from = h.buffer(x, device, box, BufferCategory::input), drawn = h.buffer(mask, device, box);
    results.push_back(h.buffer(y, device, box));
    TaskId draws = h.compute("dropout_mask", {Dims{8, 6}, 0.5}, {drawn});
    h.compute("mul", {}, {from, drawn, results.back()}, {draws});
  }
  h.program.outputs.push_back({"y", {8, 6}, results});
  return h.program;
}

// Five steps, with another input each.
std::vector<HostTensor> masked(const std::string& backend, Precision precision) {
  Program program = dropout();
  Executor executor(program, {backend, precision, 11});
  std::vector<HostTensor> all;
  for (int step = 0; step < 5; ++step) {
    HostTensor x = real_tensor({8, 6});
    for (double& value : x.reals) value = 1 + step;
    executor.set_input("x", x);
    executor.step();
    all.push_back(executor.output(0));
  }
  return all;
}

void check_masks(const std::vector<HostTensor>& steps) {
  for (std::size_t step = 0; step < steps.size(); ++step) {
    auto kept = std::count(steps[step].reals.begin(), steps[step].reals.end(), 2.0 * static_cast<double>(step + 1));
    auto dropped = std::count(steps[step].reals.begin(), steps[step].reals.end(), 0.0);
    CHECK(kept + dropped == 48);
    CHECK(std::min(kept, dropped) >= 8);  // of 48 fair coins
    if (step == 0) continue;
    bool same = true;
    for (std::size_t i = 0; i < 48; ++i) same = same && (steps[0].reals[i] == 0) == (steps[step].reals[i] == 0);
    CHECK_FALSE(same);
  }
}

void check_trace(const std::string& backend) {
  Pcg pcg = build_model({"bert-tiny", {{"batch", 4}, {"layers", 1}, {"seq-len", 8}}});
  LowerOptions options{.optimizer = parse_optimizer("sgd 0.1 momentum=0.9"),
                       .schedule = {.offload = Offload::activations_and_optimizer}};
  Program program = lower(pcg, natural_mappings(pcg), uniform_topology(1), options).value();
  auto inputs = random_inputs(pcg, 3);
  Executor traced(program, {backend, Precision::f64, 7}), plain(program, {backend, Precision::f64, 7});
  for (const ProgramLeaf& leaf : traced.inputs())
    traced.set_input(leaf.name, inputs.at(leaf.name)), plain.set_input(leaf.name, inputs.at(leaf.name));
  for (int step = 0; step < 4; ++step) {
    StepResult with = traced.step(step >= 2), without = plain.step();
    CHECK(with.loss == Approx(without.loss).epsilon(1e-12));
    if (step < 2) continue;
    REQUIRE(with.trace);
    std::vector<std::optional<Span>> of(program.tasks.size());
    for (const Span& span : with.trace->spans) {
      CHECK(span.start <= span.end);
      CHECK(span.end <= with.trace->iteration);
      CHECK(span.stream == static_cast<std::uint8_t>(program.tasks[span.task.index()].stream));
      of[span.task.index()] = span;
    }
    constexpr std::int64_t kClock = 2'000'000;  // 2 us: events count in steps of half a microsecond
    for (std::size_t t = 0; t < of.size(); ++t) {
      REQUIRE(of[t]);
      for (TaskId before : program.dependencies_of(program.tasks[t]))
        CHECK(of[before.index()]->end.count <= of[t]->start.count + kClock);
    }
  }
}

}  // namespace

TEST_CASE("several iterations in one program train on the GPU as on the CPU, each with its batch, masks and update") {
  if (!gpu_or_skip()) return;
  Builder b("dropout");
  ValueRef h = b.input("x", {24, 16});
  for (int i = 0; i < 4; ++i) {
    Builder::Scope scope(b, "layer." + std::to_string(i));
    h = b.dropout(0.25, b.apply("matmul", {}, {h, b.weight("w", {16, 16})}, "matmul"));
  }
  Pcg serial = std::move(b).finish({b.apply("cross_entropy", {}, {h, b.input("labels", {24}, DType::i32)})});
  SearchOptions options;
  options.strategy = "pipeline", options.stages = 2, options.micro_batches = 4;
  StubCostModel cost(uniform_topology(4));
  for (WeightVersions weights : {WeightVersions::delayed, WeightVersions::newest})
    for (int iterations : {2, 3}) {
      options.schedule = {.order = PipelineOrder::one_f_one_b, .offload = Offload::optimizer, .weights = weights};
      if (iterations == 2) options.schedule.offload = Offload::none;  // and updates are joined
      Plan plan = find_plan({"dropout", {}}, serial, cost, options).value();
      Program step =
          lower(plan.pcg, plan.mappings, uniform_topology(4), {true, parse_optimizer("adam 0.01"), plan.schedule})
              .value();
      Program program = repeat(step, iterations, plan.schedule).value();
      INFO(in_words(plan.schedule) << ", " << iterations << " iterations");
      Executor found(program, {"cuda", Precision::f64, 7}), expected(program, {"cpu", Precision::f64, 7});
      for (int run = 0; run < 4; ++run) {  // the third is launched as a graph, the last is traced
        for (Executor* executor : {&found, &expected}) {
          for (int i = 0; i < iterations; ++i)
            for (const auto& [name, value] : random_inputs(serial, static_cast<std::uint64_t>(10 * run + i)))
              executor->set_input(name, value, i);
          executor->set_learning_rate_factor(run < 2 ? 1 : 0.5);
          executor->step(run == 3);
        }
        CHECK(found.steps_done() == (run + 1) * iterations);
        for (std::size_t out = 0; out < program.outputs.size(); ++out)
          CHECK(found.output(out).reals[0] == Approx(expected.output(out).reals[0]).epsilon(1e-9));
        for (const StateTensor& s : expected.state()) {
          INFO(s.name << " after run " << run);
          HostTensor exact = expected.state(s.name), off = found.state(s.name);
          for (std::size_t i = 0; i < off.reals.size(); ++i) off.reals[i] -= exact.reals[i];
          CHECK(norm(off) <= 1e-9 * norm(exact));
        }
      }
    }
}

TEST_CASE("dropout draws another mask in every step, on the CPU") { check_masks(masked("cpu", Precision::f32)); }

TEST_CASE("dropout on two devices of a GPU draws the masks of the CPU, step by step") {
  if (!gpu_or_skip()) return;
  for (Precision precision : {Precision::f32, Precision::f64, Precision::bf16}) DYNAMIC_SECTION(to_string(precision)) {
      CHECK(masked("cuda", precision) == masked("cpu", Precision::f64));
    }
}

TEST_CASE("a traced step on the CPU tells when each task ran, after those that it depends on") { check_trace("cpu"); }

TEST_CASE("a traced step on the GPU tells when each task ran, after those that it depends on") {
  if (!gpu_or_skip()) return;
  check_trace("cuda");
}
