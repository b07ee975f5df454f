#include "core/search/search.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/search/lower_bound.h"
#include "core/search/parallelism.h"
#include "core/search/strategy.h"

namespace unity {

#define UNITY_STRATEGY(name, function, description) Result<Outcome> function(const StrategyInput& input);
#include "core/search/strategies.def"
#undef UNITY_STRATEGY

namespace {

struct Entry {
  StrategyInfo info;
  Strategy run;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
#define UNITY_STRATEGY(name, function, description) {{name, description}, &function},
#include "core/search/strategies.def"
#undef UNITY_STRATEGY
  };
  return list;
}

}  // namespace

std::vector<StrategyInfo> strategies() {
  std::vector<StrategyInfo> list;
  for (const Entry& e : entries()) list.push_back(e.info);
  return list;
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Entry& e : entries()) names.push_back(e.info.name);
  return names;
}

Error does_not_fit(const std::string& strategy, const Candidate& candidate, const Evaluator& evaluator) {
  std::size_t fullest = 0;
  for (std::size_t d = 0; d < candidate.score.peak_memory.size(); ++d)
    if (candidate.score.peak_memory[d] > candidate.score.peak_memory[fullest]) fullest = d;
  DeviceId device(static_cast<std::int64_t>(fullest));
  return fail("strategy {}: the plan needs {} on {}, which has {}", strategy, to_string(candidate.score.peak()),
              evaluator.cost().topology().device(device).name, to_string(evaluator.memory_of(device)));
}

Result<Plan> find_plan(const ModelSpec& spec, const Pcg& model, const CostModel& cost, const SearchOptions& options) {
  if (options.budget < 1) throw_input_error("budget is {}, expected at least 1 candidate", options.budget);
  if (!(options.time_limit >= 0)) throw_input_error("time limit is {}, expected at least 0 s", options.time_limit);
  if (!(options.alpha >= 1)) throw_input_error("alpha is {}, expected at least 1", options.alpha);
  for (const std::string& kind : options.parallelism)
    if (std::find(parallelism_kinds().begin(), parallelism_kinds().end(), kind) == parallelism_kinds().end())
      throw_input_error("parallelism '{}' is not known{}", kind, suggestion(kind, parallelism_kinds()));
  const Entry* entry = nullptr;
  for (const Entry& e : entries())
    if (e.info.name == options.strategy) entry = &e;
  if (!entry)
    throw_input_error("strategy '{}' is not known{}", options.strategy, suggestion(options.strategy, strategy_names()));
  const Topology& topology = cost.topology();
  Evaluator evaluator(cost, {true, options.optimizer, options.schedule}, options.memory_limit,
                      {options.mapping_dp, options.cache, options.stop, options.time_limit});
  Result<Outcome> found = entry->run({model, evaluator, options, static_cast<int>(topology.device_count())});
  SearchRecorder& record = evaluator.record();
  std::string stopped =
      options.stop && *options.stop ? "interrupted" : fmt::format("time limit of {:g} s", options.time_limit);
  if (!found.ok()) {
    if (record.stopped()) return fail("strategy {}: {} before a plan was found", options.strategy, stopped);
    return found.error();
  }
  Outcome outcome = std::move(*found);
  if (!evaluator.fits(outcome.candidate.score)) return does_not_fit(options.strategy, outcome.candidate, evaluator);
  Plan plan;
  plan.model = spec;
  plan.topology = topology.name;
  plan.nodes = topology.whole_nodes ? topology.whole_nodes : topology.nodes;
  plan.devices = static_cast<int>(topology.device_count());
  plan.topology_hash = topology.hash();
  if (auto batch = spec.options.find("batch"); batch != spec.options.end()) plan.global_batch = batch->second;
  plan.pcg = std::move(outcome.candidate.pcg);
  plan.mappings = std::move(outcome.candidate.mappings);
  plan.optimizer = options.optimizer;
  plan.schedule = options.schedule;
  plan.derivation = std::move(outcome.derivation);
  SearchLog log = record.log();
  if (log.best_so_far.empty()) {  // strategies that have but one plan
    evaluator.found(outcome.candidate.score);
    log = record.log();
  }
  plan.search = {options.strategy, log.interrupted ? stopped : outcome.stopped_because,       evaluator.scored(),
                 record.seconds(), lower_bound(model, cost, options).value_or(Picoseconds{}), std::move(log)};
  plan.prediction = {outcome.candidate.score.iteration, outcome.candidate.score.peak(),
                     outcome.candidate.score.communicated};
  return plan;
}

}  // namespace unity
