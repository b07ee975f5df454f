// Core and the simulator as a library: a graph made in C++, planned for half a node of Summit by two strategies.
//   predict [TOPOLOGY.yaml]
#include <iostream>

#include "core/graph/builder.h"
#include "core/search/search.h"
#include "simulator/cost_model.h"

using namespace unity;

int main(int argc, char** argv) try {
  constexpr std::int64_t kBatch = 96, kInputs = 1024, kHidden = 4096, kClasses = 1000;
  Builder b("two-layers");
  ValueRef x = b.input("x", {kBatch, kInputs});
  ValueRef labels = b.input("labels", {kBatch}, DType::i32);
  ValueRef hidden = b.apply("relu", {}, {b.apply("matmul", {}, {x, b.weight("w0", {kInputs, kHidden})})});
  ValueRef logits = b.apply("matmul", {}, {hidden, b.weight("w1", {kHidden, kClasses})});
  ValueRef loss = b.apply("cross_entropy", {}, {logits, labels});
  const Pcg model = std::move(b).finish({loss, logits});

  // UNITY_TOPOLOGY_FOLDER is where find_package(Unity) found the machines that come with Unity.
  std::string machine = argc > 1 ? argv[1] : UNITY_TOPOLOGY_FOLDER "/summit.yaml";
  SimulatedCostModel cost(load_topology(machine, {.nodes = 1, .devices = 3}));

  for (const char* strategy : {"data-parallel", "unity"}) {
    SearchOptions options;
    options.strategy = strategy;
    Result<Plan> plan = find_plan({"two-layers", {{"batch", kBatch}}}, model, cost, options);
    if (!plan.ok()) {
      std::cerr << strategy << ": " << plan.error().message << "\n";
      return 1;
    }
    const Prediction& p = plan->prediction;
    std::cout << strategy << ": " << to_string(p.iteration) << " an iteration, " << to_string(p.communicated)
              << " sent, " << to_string(p.peak_memory) << " on the fullest device\n";
  }
} catch (const InputError& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
