// Every plan trains like one device: random rule sequences and mappings, run by the executor in f32 and f64, against
// the serial program.

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "tests/support/paths.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

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
