#include "core/search/search.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "core/base/ahead.h"
#include "core/base/text.h"
#include "core/machine/profile.h"
#include "core/plan/repeat.h"
#include "core/search/lower_bound.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/parallelism.h"
#include "core/search/pareto.h"
#include "core/search/strategy.h"

namespace unity {

#define UNITY_STRATEGY(name, function, takes, description) Result<Outcome> function(const StrategyInput& input);
#include "core/search/strategies.def"
#undef UNITY_STRATEGY

namespace {

struct Entry {
  StrategyInfo info;
  Strategy run;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// An option that says what is sought: strategies that do not know it would seek something else.
struct Sought {
  std::string name;
  bool (*given)(const SearchOptions&);
  void (*leave_out)(SearchOptions&);
};

const std::vector<Sought>& sought() {
  using O = SearchOptions;
  static const std::vector<Sought> list = {
      {"parallelism", [](const O& o) { return !o.parallelism.empty(); }, [](O& o) { o.parallelism.clear(); }},
      {"rules", [](const O& o) { return !o.rules.empty(); }, [](O& o) { o.rules.clear(); }},
      {"stages", [](const O& o) { return o.stages > 0; }, [](O& o) { o.stages = 0; }},
      {"parts", [](const O& o) { return o.parts > 0; }, [](O& o) { o.parts = 0; }},
      {"micro-batches", [](const O& o) { return o.micro_batches > 0; }, [](O& o) { o.micro_batches = 0; }},
  };
  return list;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
#define UNITY_STRATEGY(name, function, takes, description) {{name, description, words(takes)}, &function},
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

std::vector<std::string> not_taken(const SearchOptions& options) {
  std::vector<std::string> names;
  for (const Entry& e : entries())
    for (const Sought& option : sought())
      if (e.info.name == options.strategy && option.given(options) &&
          std::find(e.info.takes.begin(), e.info.takes.end(), option.name) == e.info.takes.end())
        names.push_back(option.name);
  return names;
}

void leave_out(SearchOptions& options, const std::vector<std::string>& names) {
  for (const Sought& option : sought())
    if (std::find(names.begin(), names.end(), option.name) != names.end()) option.leave_out(options);
}

Error does_not_fit(const std::string& strategy, const Score& score, const Evaluator& evaluator,
                   const std::string& plan) {
  // The one that lacks the most: the fullest may have more.
  DeviceId device(0);
  auto share = [&](DeviceId d) {
    return static_cast<double>(score.peak_memory[d.index()].count) /
           static_cast<double>(std::max<std::int64_t>(1, evaluator.memory_of(d).count));
  };
  for (DeviceId d(1); d.index() < score.peak_memory.size(); d = DeviceId(d.value + 1))
    if (share(d) > share(device)) device = d;
  return fail("strategy {}: {} needs {} on {}, which {} {}", strategy, plan,
              at_least(score.peak_memory[device.index()]), evaluator.cost().topology().device(device).name,
              evaluator.is_limited(device) ? "is limited to" : "has", to_string(evaluator.memory_of(device)));
}

namespace {

constexpr std::string_view kNoPlanYet = " before a plan was found";

std::string stop_reason(const SearchOptions& options) {
  return options.stop && *options.stop ? "interrupted" : fmt::format("time limit of {:g} s", options.time_limit);
}

void check_options(const SearchOptions& options) {
  if (options.budget < 1) throw_input_error("budget is {}, expected at least 1 candidate", options.budget);
  if (!(options.time_limit >= 0)) throw_input_error("time limit is {}, expected at least 0 s", options.time_limit);
  if (!(options.alpha >= 1)) throw_input_error("alpha is {}, expected at least 1", options.alpha);
  for (const std::string& kind : options.parallelism)
    if (std::find(parallelism_kinds().begin(), parallelism_kinds().end(), kind) == parallelism_kinds().end())
      throw_input_error("parallelism '{}' is not known{}", kind, suggestion(kind, parallelism_kinds()));
  for (const std::string& name : not_taken(options)) {
    std::vector<std::string> others;
    for (const Entry& e : entries())
      if (std::find(e.info.takes.begin(), e.info.takes.end(), name) != e.info.takes.end())
        others.push_back(e.info.name);
    throw_input_error("strategy {} does not take --{}; these do: {}", options.strategy, name, join(others));
  }
  if (!options.rules.empty() && !options.algebra)
    throw_input_error("--rules: found with --no-algebra, which uses none");
}

Strategy strategy_of(const SearchOptions& options) {
  for (const Entry& e : entries())
    if (e.info.name == options.strategy) return e.run;
  throw_input_error("strategy '{}' is not known{}", options.strategy, suggestion(options.strategy, strategy_names()));
}

// Other values, or others first, and the plan would train another loss.
void check_outputs(const Pcg& model, const Pcg& plan) {
  const bool same =
      std::equal(model.outputs().begin(), model.outputs().end(), plan.outputs().begin(), plan.outputs().end(),
                 [&](ValueRef a, ValueRef b) { return model.shape(a).shape() == plan.shape(b).shape(); });
  UNITY_CHECK(same, "a plan returns other values than the model");
}

Plan make_plan(const ModelSpec& spec, Evaluator& evaluator, const SearchOptions& options, Picoseconds bound,
               Outcome outcome) {
  const Topology& topology = evaluator.cost().topology();
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
  plan.schedule = outcome.candidate.schedule;
  plan.derivation = std::move(outcome.derivation);
  SearchRecorder& record = evaluator.record();
  SearchLog log = record.log();
  if (log.best_so_far.empty()) {  // strategies that have but one plan
    evaluator.found(outcome.candidate.score);
    log = record.log();
  }
  std::string why = log.interrupted ? stop_reason(options) : outcome.stopped_because;
  if (!outcome.candidate.exact) why += "; the plan's time is told by a few devices, or its first micro-batches";
  plan.search = {options.strategy, std::move(why), evaluator.scored(), record.seconds(), bound, std::move(log)};
  plan.search.profile = profile_in_words(topology);
  plan.prediction = {outcome.candidate.score.iteration, outcome.candidate.score.peak(),
                     outcome.candidate.score.communicated};
  return plan;
}

// Lets SearchOptions::watch see what the evaluator does, as long as it lives.
class Watched {
 public:
  Watched(const SearchOptions& options, Evaluator& evaluator) : watch_(options.watch) {
    if (watch_)
      watch_([&evaluator] {
        return SearchState{evaluator.record().log(), evaluator.scored(), evaluator.record().seconds(),
                           evaluator.record().queue()};
      });
  }
  ~Watched() {
    if (watch_) watch_({});
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  const std::function<void(std::function<SearchState()>)>& watch_;
};

// Where a few devices told nearly all.
void score_from_all(Outcome& outcome, Evaluator& evaluator) {
  if (outcome.candidate.exact) return;
  evaluator.score_after_stop(1);
  auto all = evaluator.evaluate_all(outcome.candidate, evaluator.stopping() ? kMostTasksAfterStop : kMostTasksOfPlan);
  evaluator.score_after_stop(0);
  if (all.ok()) outcome.candidate = std::move(*all);
}

// Plans are sought with tasks one by one, which is what the certificate is of; then those that follow one another are
// made one.
Result<void> fuse_tasks(Plan& plan, const CostModel& cost, const SearchOptions& options) {
  plan.schedule.fuse = options.schedule.fuse;
  Evaluator evaluator(cost, {true, plan.optimizer, plan.schedule}, options.memory_limit,
                      {.blocks = options.blocks, .stop = options.stop, .jobs = options.jobs});
  evaluator.score_after_stop(1);
  Outcome fused{UNITY_TRY(evaluator.evaluate_stages(plan.pcg, plan.mappings, plan.schedule, kMostTasksOfPlan))};
  score_from_all(fused, evaluator);
  const Score& score = fused.candidate.score;
  if (!evaluator.fits(score)) return does_not_fit(plan.search.strategy, score, evaluator, "the plan with fused tasks");
  plan.prediction.iteration = score.iteration, plan.prediction.peak_memory = score.peak();
  plan.search.lower_bound = {};
  return {};
}

}  // namespace

Result<std::vector<Plan>> find_plans(const ModelSpec& spec, const Pcg& model, const CostModel& cost,
                                     const SearchOptions& options) {
  check_options(options);
  if (options.schedule.fuse != Fuse::none) {
    SearchOptions apart = options;
    apart.schedule.fuse = Fuse::none;
    std::vector<Plan> plans = UNITY_TRY(find_plans(spec, model, cost, apart));
    Result<void> refused;
    std::erase_if(plans, [&](Plan& plan) {
      Result<void> fused = fuse_tasks(plan, cost, options);
      if (!fused.ok() && refused.ok()) refused = fused.error();
      return !fused.ok();
    });
    if (plans.empty()) return refused.error();
    keep_pareto_front(
        plans, plans.size(), [](const Plan& p) { return p.prediction.iteration.count; },
        [](const Plan& p) { return p.prediction.peak_memory.count; });
    return plans;
  }
  Strategy strategy = strategy_of(options);
  Evaluator evaluator(
      cost, {true, options.optimizer, options.schedule}, options.memory_limit,
      {options.mapping_dp, options.blocks, options.cache, options.stop, options.time_limit, options.jobs});
  Watched watched(options, evaluator);
  StrategyInput input{model, evaluator, options, static_cast<int>(cost.topology().device_count())};
  Result<Outcome> found = strategy(input);
  if (!found.ok()) {
    if (!evaluator.record().stopped()) return found.error();
    return fail("strategy {}: {}{}", options.strategy, stop_reason(options), kNoPlanYet);
  }
  auto none_fits = [&](const Score& score) {
    const std::optional<Score>& least = evaluator.smallest();
    const bool smaller = least && evaluator.excess(*least) < evaluator.excess(score);
    return does_not_fit(options.strategy, smaller ? *least : score, evaluator,
                        evaluator.scored() > 1 ? "the smallest plan found" : "the plan");
  };
  std::vector<Outcome> front = std::move(found->front);
  if (options.pareto && front.empty()) {
    front = memory_tradeoffs(*found, input, Tradeoffs::all);
    for (Outcome& outcome : front) {
      evaluator.found(outcome.candidate.score);
      outcome.stopped_because += "; varied for its memory in all ways";
    }
  }
  if (front.empty()) front.push_back(std::move(*found));
  const Score fastest = front.front().candidate.score;
  std::erase_if(front, [&](const Outcome& o) { return !evaluator.fits(o.candidate.score); });
  if (front.empty()) return none_fits(fastest);
  // It needs nothing of the plans; meanwhile one thread lowers them.
  Ahead<std::optional<Picoseconds>> bound(evaluator.threads(), [&] { return lower_bound(model, cost, options); });
  for (Outcome& outcome : front) {
    check_outputs(model, outcome.candidate.pcg);
    score_from_all(outcome, evaluator);
  }
  // What its first micro-batches need is told nearly.
  const Score first = front.front().candidate.score;
  std::erase_if(front, [&](const Outcome& o) { return !evaluator.fits(o.candidate.score); });
  if (front.empty()) return none_fits(first);
  keep_front(front, evaluator);
  std::vector<Plan> plans;
  const Picoseconds least = bound.get().value_or(Picoseconds{});
  for (Outcome& outcome : front) plans.push_back(make_plan(spec, evaluator, options, least, std::move(outcome)));
  return plans;
}

bool was_stopped(const Error& error) { return error.message.ends_with(kNoPlanYet); }

Result<Plan> find_plan(const ModelSpec& spec, const Pcg& model, const CostModel& cost, const SearchOptions& options) {
  std::vector<Plan> plans = UNITY_TRY(find_plans(spec, model, cost, options));
  return std::move(plans.front());
}

}  // namespace unity
