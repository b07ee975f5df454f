// Weights of one update before: w(t+1) = w(t) - rate v(t), v(t) = momentum v(t-1) + grad(w(t-1)).
#include <cmath>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

using Values = std::map<std::string, HostTensor>;
constexpr double kRate = 0.1;

struct Case {
  ModelSpec spec;
  Pcg serial = build_model(spec);
  Values inputs = random_inputs(serial, 5);

  Plan pipeline(const std::string& optimizer, PipelineOrder order = PipelineOrder::one_f_one_b) const {
    SimulatedCostModel cost(uniform_topology(4));
    SearchOptions options;
    options.strategy = "pipeline";
    options.optimizer = parse_optimizer(optimizer);
    options.stages = 2, options.micro_batches = 4;
    options.schedule.order = order;
    options.schedule.weights = WeightVersions::delayed;
    return find_plan(spec, serial, cost, options).value();
  }
};

Program lowered(const Plan& plan) {
  return lower(plan.pcg, plan.mappings, uniform_topology(plan.devices), {true, plan.optimizer, plan.schedule}).value();
}

Program lowered(const Pcg& serial) {
  return lower(serial, std::vector<MachineMapping>(serial.size()), uniform_topology(1)).value();
}

struct Training : Executor {
  Training(const Program& program, const Values& inputs) : Executor(program, {"cpu", Precision::f64, 7}) {
    for (const ProgramLeaf& leaf : this->inputs()) set_input(leaf.name, inputs.at(leaf.name));
  }
};

// One device with the delay, by hand: gradients at the older weights, added to the newer ones.
class Delayed {
 public:
  Delayed(const Program& program, const Values& inputs, double momentum)
      : executor_(program, inputs), momentum_(momentum) {
    for (const std::string& name : executor_.weight_names()) {
      older[name] = newer[name] = executor_.weight(name);
      velocity_[name] = real_tensor(older[name].dims);
    }
  }

  double step() {
    for (const auto& [name, value] : older) executor_.set_weight(name, value);
    double loss = executor_.step().loss;
    older = newer;
    for (auto& [name, w] : newer) {
      HostTensor gradient = executor_.gradient(name);
      std::vector<double>& v = velocity_.at(name).reals;
      for (std::size_t i = 0; i < v.size(); ++i) {
        v[i] = momentum_ * v[i] + gradient.reals[i];
        w.reals[i] -= kRate * v[i];
      }
    }
    return loss;
  }

  Values older, newer;

 private:
  Training executor_;
  double momentum_;
  Values velocity_;
};

double difference(const HostTensor& a, const HostTensor& b) {
  REQUIRE(a.dims == b.dims);
  double sum = 0;
  for (std::size_t i = 0; i < a.reals.size(); ++i) sum += (a.reals[i] - b.reals[i]) * (a.reals[i] - b.reals[i]);
  return std::sqrt(sum) / std::max(norm(b), 1.0);
}

}  // namespace

TEST_CASE("a pipeline with weights of one update before equals one device with the same delay") {
  for (const char* model : {"mlp-tiny", "bert-tiny"})
    for (double momentum : {0.0, 0.9}) {
      INFO(model << ", momentum " << momentum);
      Case c{{model, {{"batch", 24}}}};
      Program serial = lowered(c.serial);
      Delayed reference(serial, c.inputs, momentum);
      Plan plan = c.pipeline(fmt::format("sgd {} momentum={}", kRate, momentum));
      plan.schedule.offload = Offload::optimizer;
      Program program = lowered(plan);
      Training executor(program, c.inputs);
      double first = 0;
      for (int step = 0; step < 5; ++step) {
        INFO("step " << step);
        double expected = reference.step(), loss = executor.step().loss;
        CHECK(std::abs(loss - expected) <= 1e-12 * std::abs(expected));
        if (step == 0) first = loss;
        if (step == 1) CHECK(std::abs(loss - first) <= 1e-12 * std::abs(first));  // both steps read the first weights
        if (step == 2) CHECK(std::abs(loss - first) > 1e-6 * std::abs(first));
        for (const std::string& name : executor.weight_names()) {
          INFO(name);
          CHECK(difference(executor.weight(name), reference.older.at(name)) <= 1e-12);
          CHECK(difference(executor.state(name + ".next"), reference.newer.at(name)) <= 1e-12);
        }
      }
    }
}

TEST_CASE("what a run with delayed weights needs to go on holds both versions") {
  Case c{{"mlp-tiny", {{"batch", 24}}}};
  Program program = lowered(c.pipeline("sgd 0.1 momentum=0.9"));
  Training through(program, c.inputs), resumed(program, c.inputs);
  for (int step = 0; step < 2; ++step) through.step();
  for (const StateTensor& s : through.state()) resumed.set_state(s.name, through.state(s.name));
  resumed.set_steps_done(2);
  CHECK(through.step().loss == resumed.step().loss);
  for (const StateTensor& s : through.state()) CHECK(through.state(s.name).reals == resumed.state(s.name).reals);
}

TEST_CASE("a weight that is set is set in both versions") {
  Case c{{"mlp-tiny", {{"batch", 24}}}};
  Program program = lowered(c.pipeline("sgd 0.1"));
  Training executor(program, c.inputs);
  std::string name = executor.weight_names().front();
  HostTensor value = executor.weight(name);
  for (double& x : value.reals) x = 0.5;
  executor.set_weight(name, value);
  CHECK(executor.weight(name).reals == value.reals);
  CHECK(executor.state(name + ".next").reals == value.reals);
}

TEST_CASE("delayed weights take twice the memory of the weights") {
  Case c{{"bert-tiny", {{"batch", 24}}}};
  Plan plan = c.pipeline("sgd 0.1");
  auto weights = [&](WeightVersions versions) {
    plan.schedule.weights = versions;
    Program program = lowered(plan);
    std::int64_t bytes = 0;
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      BufferId id(static_cast<std::int64_t>(b));
      bool constant = !program.tensor_of(id).origin.valid();  // the loss's own gradient
      if (program.buffers[b].category == BufferCategory::weight && !constant) bytes += program.bytes_of(id).count;
    }
    return bytes;
  };
  CHECK(weights(WeightVersions::delayed) == 2 * weights(WeightVersions::newest));
}

TEST_CASE("plans without stages are refused delayed weights") {
  Case c{{"mlp-tiny", {{"batch", 24}}}};
  LowerOptions options;
  options.schedule.weights = WeightVersions::delayed;
  auto program = lower(c.serial, std::vector<MachineMapping>(c.serial.size()), uniform_topology(1), options);
  REQUIRE(!program.ok());
  CHECK_THAT(program.error().message, Catch::Contains("weight versions 2bw: found a plan of 0 pipeline stages"));
  CHECK_THROWS_WITH(parse_weight_versions("3bw", "--weight-versions"),
                    "--weight-versions: found '3bw', expected newest or 2bw");
}
