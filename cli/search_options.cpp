#include "cli/search_options.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "cli/progress.h"
#include "core/base/text.h"
#include "core/graph/evaluate.h"

namespace unity::cli {

void SearchSettings::add(CLI::App& command, bool with_budget) {
  if (with_budget)
    at_least_one(command.add_option("--budget", search.budget, "Candidates that may be scored"))->capture_default_str();
  command.add_option("--alpha", search.alpha, "Expand candidates up to alpha times the best")->capture_default_str();
  at_least_one(command.add_option("--jobs", search.jobs,
                                  "Threads (default: one for each core); the plan does not depend on it"));
  command.add_option("--seed", search.seed, "Seed of random choices")->capture_default_str();
  command.add_option("--memory-limit", memory_limit, "Memory per device, as in '12 GB' (default: as the device has)");
  command.add_option("--parallelism", parallelism,
                     "Allowed kinds, comma-separated: data,model,reduction,head,spatial,pipeline (default: all)");
  command.add_option("--optimizer", optimizer,
                     "As in 'adam 1e-4' or 'sgd 0.1 momentum=0.9 weight_decay=1e-4' (default: the model's)");
}

SearchOptions SearchSettings::options(const std::string& strategy, const std::string& model) const {
  SearchOptions o = search;
  o.strategy = strategy;
  o.memory_limit = parse_memory("--memory-limit", memory_limit);
  if (!parallelism.empty()) o.parallelism = split_list("--parallelism", parallelism);
  o.optimizer = parse_optimizer(optimizer.empty() ? model_info(model).optimizer : optimizer);
  return o;
}

std::vector<std::string> split_list(const std::string& option, const std::string& text) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    std::size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    if (names.back().empty()) throw_input_error("{}: found '{}', expected names separated by commas", option, text);
    begin = end + 1;
  }
  return names;
}

Result<Plan> search_plan(const ModelOptions& model, const std::string& topology_name, const CostModel& cost,
                         const SearchOptions& options) {
  ModelSpec spec = model.spec(static_cast<int>(cost.topology().device_count()));
  Pcg pcg = build_model(spec);
  Progress bar(fmt::format("{} {}", options.strategy, spec.name));
  SearchOptions with_progress = options;
  with_progress.progress = [&](const SearchProgress& p) {
    bar.update(static_cast<std::int64_t>(p.fraction * 1000), 1000,
               fmt::format("{} candidates, {}", p.candidates, p.stage));
  };
  auto plan = find_plan(spec, pcg, cost, with_progress);
  if (plan.ok()) plan->topology = topology_name;
  return plan;
}

std::map<std::string, std::int64_t> input_bounds(const Pcg& pcg) {
  std::map<std::string, std::int64_t> bounds;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (n.op->name() != "input") continue;
    std::int64_t bound = index_bound(pcg, NodeId(static_cast<std::int64_t>(i)));
    if (bound != kNoIndexBound) bounds[n.name] = bound;
  }
  return bounds;
}

}  // namespace unity::cli
