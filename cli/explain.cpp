// unity explain: a plan in words, what its iteration is predicted to be made of, and what it would be if.
#include "core/search/explain.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/iterations.h"
#include "cli/lowered.h"
#include "cli/plan_summary.h"
#include "cli/prediction_report.h"
#include "cli/scale_options.h"

namespace unity::cli {
namespace {

struct Options {
  std::string plan;
  MachineOptions machine;
  ScaleOptions scales;
  IterationOptions iterations;
  bool what_if = false, json = false;
};

nlohmann::ordered_json words_json(const Plan& plan) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array(), places = blocks, rules = blocks;
  for (const BlockExplanation& b : explain_blocks(plan.pcg))
    blocks.push_back({{"block", b.block}, {"count", b.count}, {"parallelism", b.sentences}});
  for (const PlaceExplanation& p : explain_places(plan))
    places.push_back({{"devices", p.devices}, {"operators", p.operators}, {"first", p.first}, {"last", p.last}});
  for (const RuleSummary& r : summarise_derivation(plan))
    rules.push_back({{"rule", r.rule}, {"degree", r.degree}, {"count", r.count}, {"where", r.places}});
  return {{"model", plan.model.name},
          {"topology", plan.topology},
          {"strategy", plan.search.strategy},
          {"schedule", in_words(plan.schedule)},
          {"blocks", blocks},
          {"places", places},
          {"rules", rules}};
}

// What the fullest device holds at its peak.
const std::array<Bytes, 5>& fullest_memory(const SimulationResult& r) {
  auto fullest = std::max_element(r.peak_memory.begin(), r.peak_memory.end()) - r.peak_memory.begin();
  return r.memory_by_category[static_cast<std::size_t>(fullest)];
}

void explain(const Options& o) {
  Plan plan = load_plan(o.plan);
  std::vector<Scale> scales = o.scales.parse();
  Topology topology = machine_of(plan, o.machine, o.plan);
  warn_of_estimates(plan, topology, o.plan);
  Program program = lower_plan(plan, topology, true);
  Scenario scenario(program, topology, scales);
  PredictionReport report = report_prediction(plan, scenario);
  std::optional<SimulationResult> unscaled;
  if (!scales.empty()) unscaled = Scenario(program, topology).simulate(true);
  if (o.what_if) {
    std::vector<std::vector<Scale>> cases;
    for (const Scale& scale : usual_scales(topology)) {
      cases.push_back(scales);
      cases.back().push_back(scale);
    }
    report.what_ifs = what_if(program, topology, cases);
  }
  std::optional<SteadyState> steady;
  if (int count = o.iterations.count(plan.schedule); count > 1) {
    Program several = several_iterations(plan, program, count);
    steady = steady_state(several, Scenario(several, topology, scales).simulate(true).trace);
  }
  if (o.json) {
    nlohmann::ordered_json result = words_json(plan);
    result.update(prediction_json(report, scenario));
    result["memory_by_category"] = by_category_json(fullest_memory(report.result));
    if (steady) {
      result["steady"] = steady_json(*steady);
      result["steady"]["iteration_seconds"] = steady->iteration().seconds();
      result["steady"]["samples_per_second"] = static_cast<double>(plan.global_batch) / steady->iteration().seconds();
    }
    if (unscaled) result.update(change_json(scales, *unscaled, report.result));
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("{}\n", explain_plan(plan));
  if (unscaled) print_change(scales, program, *unscaled, report.result);
  print_prediction(report, scenario);
  if (steady)
    fmt::print("\nWithout filling and draining: {}; {:.1f} samples/s\n", steady_text(*steady),
               static_cast<double>(plan.global_batch) / steady->iteration().seconds());
  fmt::print("\nMemory of the fullest device at its peak\n  {}\n", by_category_text(fullest_memory(report.result)));
}

}  // namespace

void add_explain(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "explain",
                                  "Say in words how a plan parallelises and which rules led there; what its iteration "
                                  "is made of, and where the bottleneck is",
                                  "  unity explain plan.json --what-if\n"
                                  "  unity explain plan.json --scale link:infiniband=2 --scale device.launch=0");
  command->add_option("PLAN", o->plan, "A plan file")->required();
  o->machine.add(*command, false);
  o->scales.add(*command);
  o->iterations.add(*command);
  command->add_flag("--what-if", o->what_if,
                    "Predict with each kind of link, the devices, their memory, .. twice as fast in turn");
  add_json(*command, o->json);
  command->callback([o] { explain(*o); });
}

}  // namespace unity::cli
