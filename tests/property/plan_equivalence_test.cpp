// Every plan trains like one device: random rule sequences and mappings, run by the executor in f32 and f64, against
// the serial program.

#include <cmath>
#include <random>

#include <catch2/catch.hpp>

#include "core/graph/evaluate.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "runtime/executor.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

std::uint64_t seed_of_run() {
  const char* given = std::getenv("UNITY_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20240817;
}

std::map<std::string, HostTensor> random_inputs(const Pcg& pcg, std::uint64_t seed) {
  std::map<std::string, HostTensor> inputs;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (n.op->name() != "input") continue;
    RandomKey key = RandomKey(seed).with(i);
    Shape shape = n.outputs[0].shape();
    HostTensor t = shape.dtype == DType::i32 ? index_tensor(shape.dims) : real_tensor(shape.dims);
    if (shape.dtype == DType::i32) {
      auto bound = static_cast<std::uint64_t>(index_bound(pcg, NodeId(static_cast<std::int64_t>(i))));
      for (std::size_t k = 0; k < t.indices.size(); ++k)
        t.indices[k] = static_cast<std::int32_t>(random_below(key, k, bound));
    } else {
      for (std::size_t k = 0; k < t.reals.size(); ++k) t.reals[k] = random_normal(key, k);
    }
    inputs.emplace(n.name, std::move(t));
  }
  return inputs;
}

struct Run {
  double loss = 0;
  std::map<std::string, HostTensor> gradients;
};

Run run(const Program& program, const std::map<std::string, HostTensor>& inputs, Precision precision) {
  Executor executor(program, {"cpu", precision, 7});
  for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
  Run r;
  r.loss = executor.step().loss;
  for (const std::string& name : executor.weight_names()) r.gradients.emplace(name, executor.gradient(name));
  return r;
}

double norm(const HostTensor& t) {
  double sum = 0;
  for (double x : t.reals) sum += x * x;
  return std::sqrt(sum);
}

// What a difference of each gradient is measured against: its own norm; that of all gradients together where its own is
// zero but for rounding (a bias of the keys of attention, which softmax cancels).
std::map<std::string, double> scales(const Run& exact) {
  double all = 0;
  for (const auto& [name, g] : exact.gradients) all += norm(g) * norm(g);
  all = std::sqrt(all);
  std::map<std::string, double> result;
  for (const auto& [name, g] : exact.gradients) result[name] = norm(g) < 1e-9 * all ? all : norm(g);
  return result;
}

// The largest of |a - b| / scale over the loss and all gradients.
double distance(const Run& a, const Run& b, const std::map<std::string, double>& scale) {
  double worst = std::abs(a.loss - b.loss) / std::abs(b.loss);
  if (!(worst <= 1e-5)) UNSCOPED_INFO("loss is " << a.loss << ", expected " << b.loss);
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (const auto& [name, expected] : b.gradients) {
    HostTensor difference = a.gradients.at(name);
    for (std::size_t i = 0; i < expected.reals.size(); ++i) difference.reals[i] -= expected.reals[i];
    double relative = norm(difference) / scale.at(name);
    if (!(relative <= 1e-5)) UNSCOPED_INFO("gradient of " << name << " is off by " << relative << " of its norm");
    worst = std::isnan(relative) ? relative : std::max(worst, relative);
  }
  return worst;
}

Pcg model(const std::string& name) {
  if (name == "two-tower")
    return build_model({std::string(UNITY_SOURCE_DIR) + "/experiments/models/two-tower.yaml", {}});
  return build_model({name, {{"batch", 12}}});
}

}  // namespace

TEST_CASE("random rule sequences and mappings keep loss and all gradients") {
  std::uint64_t seed = seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  int tried = 0, sequences = 0;
  std::map<std::string, int> rules;
  for (const std::string& name : {std::string("mlp-tiny"), std::string("bert-tiny"), std::string("two-tower")}) {
    Pcg serial = model(name);
    auto inputs = random_inputs(serial, seed);
    Topology one = uniform_topology(1);
    std::vector<MachineMapping> trivial(serial.size());
    Program reference = lower(serial, trivial, one).value();
    Run exact = run(reference, inputs, Precision::f64), rounded = run(reference, inputs, Precision::f32);
    auto scale = scales(exact);
    int wanted = sequences + (name == "mlp-tiny" ? 70 : 65);
    while (sequences < wanted && ++tried < 20000) {
      int devices = 2 + static_cast<int>(random() % 7);
      Topology topology = uniform_topology(devices);
      State state = random_state(serial, devices, random);
      if (state.moves.empty()) continue;
      ++sequences;
      for (const DerivationStep& s : state.steps) ++rules[s.rule];
      auto where = random_mappings(state.pcg, topology, random);
      std::string story;
      for (const DerivationStep& s : state.steps) story += fmt::format("{} {} at {}\n", s.rule, s.degree, s.where);
      INFO(name << ", sequence " << sequences << " on " << devices << " devices:\n" << story << print(state.pcg));
      check_well_formed(state.pcg).value();
      Program program = lower(state.pcg, where, topology).value();
      check_program(program).value();
      REQUIRE(distance(run(program, inputs, Precision::f64), exact, scale) <= 1e-12);
      REQUIRE(distance(run(program, inputs, Precision::f32), rounded, scale) <= 1e-5);
    }
  }
  CHECK(sequences == 200);
  CHECK(rules.size() >= 20);  // the sequences do not all use the same few rules
}
