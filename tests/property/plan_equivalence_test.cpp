// Every plan trains like one device: random rule sequences and mappings, run by the executor in f32 and f64, against
// the serial program.

#include <cmath>
#include <random>

#include <catch2/catch.hpp>

#include "core/graph/evaluate.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/rewrite/normalize.h"
#include "core/search/mapping_search.h"
#include "core/search/substitution.h"
#include "runtime/executor.h"
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

std::vector<MachineMapping> random_mappings(const Pcg& pcg, const Topology& topology, std::mt19937_64& random) {
  int devices = static_cast<int>(topology.device_count());
  std::vector<MachineMapping> result(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    TaskGrid grid = node_grid(pcg, NodeId(static_cast<std::int64_t>(i)));
    std::vector<MachineMapping> choices = mappings(grid, topology, {0, devices});
    int tasks = task_count(grid);
    if (choices.empty() || random() % 3 == 0)
      choices = {natural_mapping(grid, static_cast<int>(random() % static_cast<std::uint64_t>(devices - tasks + 1)))};
    result[i] = choices[random() % choices.size()];
  }
  return result;
}

// Sequences of rules at random places, under random mappings.
class Trial {
 public:
  explicit Trial(std::uint64_t seed) : seed_(seed), random_(seed) {}

  // Compares `wanted` sequences with the serial program, to the given differences in f64 and f32.
  void check(const Pcg& serial, int wanted, double exact_within, double rounded_within) {
    auto inputs = random_inputs(serial, seed_);
    Topology one = uniform_topology(1);
    std::vector<MachineMapping> trivial(serial.size());
    Program reference = lower(serial, trivial, one).value();
    Run exact = run(reference, inputs, Precision::f64), rounded = run(reference, inputs, Precision::f32);
    auto scale = scales(exact);
    for (int done = 0, tried = 0; done < wanted && tried < 20000; ++tried) {
      int devices = 2 + static_cast<int>(random_() % 7);
      State state = sequence(serial, devices);
      if (state.moves.empty()) continue;
      ++sequences, ++done;
      for (const DerivationStep& s : state.steps) ++rules[s.rule];
      Topology topology = uniform_topology(devices);
      auto where = random_mappings(state.pcg, topology, random_);
      std::string story;
      for (const DerivationStep& s : state.steps) story += fmt::format("{} {} at {}\n", s.rule, s.degree, s.where);
      INFO(serial.name() << ", sequence " << sequences << " on " << devices << " devices:\n"
                         << story << print(state.pcg));
      check_well_formed(state.pcg).value();
      Program program = lower(state.pcg, where, topology).value();
      check_program(program).value();
      REQUIRE(distance(run(program, inputs, Precision::f64), exact, scale) <= exact_within);
      REQUIRE(distance(run(program, inputs, Precision::f32), rounded, scale) <= rounded_within);
    }
  }

  int sequences = 0;
  std::map<std::string, int> rules;

 private:
  // Up to 5 moves that fit the devices; none when 40 attempts find none.
  State sequence(const Pcg& serial, int devices) {
    State state{normalize(serial), {}, {}};
    std::size_t length = 1 + random_() % 5;
    for (int attempt = 0; attempt < 40 && state.moves.size() < length; ++attempt) {
      Move move;
      switch (random_() % 4) {
        case 0:
          move = {Move::Kind::replicate_all, 0, 0, 2 + static_cast<int>(random_() % 2)};
          break;
        case 1:
          move = {Move::Kind::rule, static_cast<int>(random_() % library_size()), static_cast<int>(random_() % 3), 0};
          break;
        default:
          move = {Move::Kind::shard_class, static_cast<int>(random_() % 24), 0, 2 + static_cast<int>(random_() % 3)};
      }
      auto next = apply_move(state, move);
      if (!next.ok()) continue;
      bool fits = true;
      for (std::size_t i = 0; i < next->pcg.size(); ++i)
        fits = fits && task_count(node_grid(next->pcg, NodeId(static_cast<std::int64_t>(i)))) <= devices;
      if (fits) state = std::move(*next);
    }
    return state;
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("random rule sequences and mappings keep loss and all gradients") {
  std::uint64_t seed = seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  Trial trial(seed);
  trial.check(build_model({"mlp-tiny", {{"batch", 12}}}), 70, 1e-12, 1e-5);
  trial.check(build_model({"bert-tiny", {{"batch", 12}}}), 65, 1e-12, 1e-5);
  trial.check(build_model({std::string(UNITY_SOURCE_DIR) + "/experiments/models/two-tower.yaml", {}}), 65, 1e-12, 1e-5);
  CHECK(trial.sequences == 200);
  CHECK(trial.rules.size() >= 20);  // the sequences do not all use the same few rules
}

TEST_CASE("random rule sequences and mappings keep loss and all gradients of the paper's models") {
  std::uint64_t seed = seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  Trial trial(seed);
  const ModelSpec models[] = {
      {"bert@artifact", {{"batch", 12}, {"seq-len", 6}, {"layers", 2}, {"hidden", 12}, {"heads", 6}}},
      {"candle-uno", {{"batch", 12}, {"layers", 2}, {"top-layers", 2}, {"hidden", 12}, {"features", 24}}},
      {"dlrm", {{"batch", 12}, {"hidden", 48}, {"width", 12}, {"rows", 24}}},
      {"dlrm@artifact", {{"batch", 12}, {"hidden", 12}, {"width", 12}, {"rows", 24}}},
      {"mlp@artifact", {{"batch", 12}, {"layers", 3}, {"hidden", 12}, {"input", 12}}},
      {"resnext-50@artifact",
       {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}},
      {"xdl", {{"batch", 12}, {"rows", 24}, {"width", 12}, {"hidden", 12}}}};
  for (const ModelSpec& spec : models) trial.check(build_model(spec), 8, 1e-12, 1e-5);
  // Batch norm divides by deviations, which magnifies rounding.
  for (const ModelSpec& spec :
       {ModelSpec{"resnext-50",
                  {{"batch", 12}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 4}, {"blocks", 1}}},
        ModelSpec{"inception-v3", {{"batch", 12}, {"image", 75}, {"classes", 6}, {"divisor", 16}}}})
    trial.check(build_model(spec), 4, 1e-9, 1e-1);
  CHECK(trial.sequences == 64);
}
