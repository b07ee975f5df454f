#include "cli/search_options.h"

#include <algorithm>
#include <set>

#include <CLI/CLI.hpp>

#include "cli/progress.h"
#include "core/base/text.h"
#include "core/graph/evaluate.h"
#include "core/machine/mapping_families.h"
#include "core/rewrite/library.h"

namespace unity::cli {

void ScheduleOptions::add(CLI::App& command, bool short_name) {
  command.add_option(short_name ? "--schedule,--pipeline-schedule" : "--pipeline-schedule", order,
                     "Order of micro-batches: gpipe (default), 1f1b, interleaved");
  command.add_option(
      "--bucket", bucket,
      "Join all-reduces of gradients until they have so many bytes, as in '25 MB' (default: each on its own)");
  command.add_option(
      "--remat", remat,
      "Activations to compute again in the backward pass: none, blocks, all (about sqrt(n) segments), or "
      "labels of operators, comma-separated");
  command.add_option("--offload", offload,
                     "What waits on the host: none, activations, optimizer, or activations,optimizer (backend cpu)");
  command.add_option("--weight-versions", weights,
                     "Weights that a pipeline's passes read: newest (default), or those of one update before: 2bw");
}

void ScheduleOptions::apply(Schedule& schedule) const {
  if (!order.empty()) schedule.order = parse_pipeline_order(order, "--pipeline-schedule");
  if (!bucket.empty()) schedule.bucket = bucket == "0" ? Bytes{} : parse_memory("--bucket", bucket);
  if (!offload.empty()) schedule.offload = parse_offload(offload, "--offload");
  if (!weights.empty()) schedule.weights = parse_weight_versions(weights, "--weight-versions");
  if (!remat.empty()) schedule.remat = parse_remat(remat, "--remat");
}

void SearchSettings::add(CLI::App& command, bool with_budget, bool short_schedule) {
  if (with_budget)
    at_least_one(command.add_option("--budget", search.budget, "Candidates that may be scored"))->capture_default_str();
  command.add_option("--alpha", search.alpha, "Expand candidates up to alpha times the best")->capture_default_str();
  at_least_one(command.add_option("--jobs", search.jobs,
                                  "Threads (default: one for each core); the plan does not depend on it"));
  command.add_option("--seed", search.seed, "Seed of random choices")->capture_default_str();
  command.add_option("--time-limit", search.time_limit,
                     "Seconds after which the search ends with the best so far; what it finds then depends on the "
                     "machine (default: none)");
  command.add_option("--memory-limit", memory_limit, "Memory per device, as in '12 GB' (default: as the device has)");
  command.add_option("--parallelism", parallelism,
                     "Allowed kinds, comma-separated: data,model,reduction,head,spatial,pipeline (default: all)");
  command.add_option("--rules", rules,
                     "Further rules of substitution: FILE.rules with its proofs (unity rules verify FILE --write)");
  command.add_option("--mappings", mappings,
                     "Further families of machine mappings: a YAML file (form: topologies/README.md)");
  command.add_option("--optimizer", optimizer,
                     "As in 'adam 1e-4' or 'sgd 0.1 momentum=0.9 weight_decay=1e-4' (default: the model's)");
  at_least_one(command.add_option("--stages", search.stages,
                                  "Strategy pipeline: stages, a divisor of the devices (default: the fastest)"));
  at_least_one(command.add_option(
      "--parts", search.parts, "Strategy pipeline: parts of the graph in each stage (default: 1; 2 for interleaved)"));
  at_least_one(command.add_option("--micro-batches", search.micro_batches,
                                  "Strategy pipeline: parts of the batch (default: the fastest)"));
  command.add_flag("!--no-splitting", search.splitting, "Search the whole graph at once");
  command.add_flag("!--no-algebra", search.algebra, "Do not rewrite: parallelization alone");
  command.add_flag("!--no-dp", search.mapping_dp,
                   "Do not search for mappings: every operator from the first device on");
  command.add_flag("!--no-blocks", search.blocks,
                   "Lower candidates for all devices, though a block of them stands for all");
  command.add_flag("!--no-cache", search.cache, "Solve equal parts anew, and keep no costs from graph to graph");
  command.add_flag(
      "!--no-buckets", search.buckets,
      "Strategy unity: each gradient in a collective of its own, or as --bucket says, though joined they be "
      "faster");
  command.add_flag("!--no-seeds", search.seeds,
                   "Strategy unity: what it finds by itself, though data parallelism, the expert or a pipeline of even "
                   "stages be faster");
  schedule.add(command, short_schedule);
}

SearchOptions SearchSettings::options(const std::string& strategy, const std::string& model) const {
  SearchOptions o = search;
  o.strategy = strategy;
  o.memory_limit = parse_memory("--memory-limit", memory_limit);
  std::set<std::string> names;
  for (const Rule& rule : rule_library()) names.insert(rule.name);
  for (const std::string& path : rules)
    for (Rule& rule : load_proved_rules(path)) {
      if (!names.insert(rule.name).second)
        throw_input_error("--rules: {}: rule '{}' is there already, in the library or another file", path, rule.name);
      o.rules.push_back(std::move(rule));
    }
  if (!parallelism.empty()) o.parallelism = split_list("--parallelism", parallelism);
  o.optimizer = parse_optimizer(optimizer.empty() ? model_info(model).optimizer : optimizer);
  schedule.apply(o.schedule);
  o.buckets = o.buckets && schedule.bucket.empty();
  return o;
}

void SearchSettings::add_mappings(Topology& topology) const {
  if (!mappings.empty()) topology.mapping_families = std::make_shared<const MappingFamilies>(mappings, topology);
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

Result<std::vector<Plan>> search_plans(const ModelOptions& model, const std::string& topology_name,
                                       const CostModel& cost, const SearchOptions& options) {
  ModelSpec spec = model.spec(static_cast<int>(cost.topology().device_count()));
  Pcg pcg = build_model(spec);
  Progress bar(fmt::format("{} {}", options.strategy, spec.name));
  SearchOptions with_progress = options;
  with_progress.progress = [&](const SearchProgress& p) {
    bar.update(static_cast<std::int64_t>(p.fraction * 1000), 1000,
               fmt::format("{} candidates, {}", p.candidates, p.stage));
  };
  std::vector<Plan> plans = UNITY_TRY(find_plans(spec, pcg, cost, with_progress));
  for (Plan& plan : plans) plan.topology = topology_name;
  return plans;
}

Result<Plan> search_plan(const ModelOptions& model, const std::string& topology_name, const CostModel& cost,
                         const SearchOptions& options) {
  std::vector<Plan> plans = UNITY_TRY(search_plans(model, topology_name, cost, options));
  return std::move(plans.front());
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
