// The joint search: level 1 (split, part_chain) over level 2 (substitution) over level 3 (mapping). What ranks the
// complete plans is the simulation of the whole iteration.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/parallel.h"
#include "core/rewrite/normalize.h"
#include "core/search/device_memory.h"
#include "core/search/device_speeds.h"
#include "core/search/gradient_buckets.h"
#include "core/search/hidden_communications.h"
#include "core/search/improve_mappings.h"
#include "core/search/map_on_shares.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/parallelism.h"
#include "core/search/part_chain.h"
#include "core/search/pipeline_stages.h"
#include "core/search/placed_operators.h"
#include "core/search/rewritings.h"
#include "core/search/stage_search.h"
#include "core/search/strategy.h"
#include "core/search/submesh.h"

namespace unity {

namespace {

// `known`: the iteration of a plan that is there already; 0: none.
Result<Outcome> algebra_then_parallel(const StrategyInput& input, Picoseconds known);

constexpr std::size_t kLayoutsKept = 3;        // of the uniform ones, for which all pairs are then tried
constexpr int kWholePatience = 1000;           // of whole graphs, and
constexpr int kFewOfWhole = 400;               // after which no plan may be twice as slow as
constexpr double kOfNoUse = 2;                 // the best known
constexpr double kFarAbove = 1.1;              // of estimates of a part
constexpr double kFarSlower = 1.25;            // than the best layout: others need not be looked at closely;
constexpr double kSlower = 1.15;               // on many devices
constexpr double kStoredMayGain = 1.5;         // than the best: with weights in parts, data parallelism may be faster
constexpr std::ptrdiff_t kSmall = 12;          // compute operators of a graph that is searched thoroughly
constexpr std::ptrdiff_t kFewOperators = 100;  // of a graph whose algebra is also searched first, by itself
constexpr int kFewDevices = 24;                // to sum gradients up
constexpr int kThoroughBudget = 1000;          // graphs that are scored then
constexpr int kWholeShare = 6;                 // of the budget, one in so many is for complete plans
constexpr int kPipelineBudget = 240;           // pipelines that are scored to improve the best one
constexpr int kMappingBudget = 3000;           // mappings of the best of them

class JointSearch {
 public:
  // What else it is for than to find the fastest plan of all.
  struct Purpose {
    bool serial = false;     // the graph that is fastest on one device, whether it fits there or not
    Picoseconds known{};     // the iteration of a plan that is there already; 0: none
    bool rewritten = false;  // the graph is the result of algebra, of which it needs no more; pipelines it does
  };
  explicit JointSearch(const StrategyInput& input) : JointSearch(input, Purpose()) {}
  JointSearch(const StrategyInput& input, const Purpose& purpose)
      : in_(input),
        serial_(purpose.serial),
        rewritten_(purpose.rewritten),
        known_(purpose.known),
        rules_(rules_of(input.options)),
        prepared_(prepare_algebraic(rules_)),
        chain_(in_, parts_of(input, rules_), level_2_of_parts(), budget_of_parts()) {}
  Result<Outcome> run();

 private:
  static std::vector<Part> parts_of(const StrategyInput& input, const std::vector<Rule>& rules);
  SubstitutionOptions level_2() const;
  SubstitutionOptions level_2_of_parts() const;
  // The rest is for complete plans.
  int budget_of_parts() const { return in_.options.budget - in_.options.budget / kWholeShare; }
  // How gradients are joined, of parts and of what they make together: as is best where they are many and small.
  Bytes bucket() const {
    return buckets_are_free() && !serial_ && in_.devices > 1 ? kUsualBucket : in_.options.schedule.bucket;
  }
  bool buckets_are_free() const { return in_.options.buckets && in_.options.schedule.bucket.count == 0; }
  // What takes so long is not worth a look where only the fastest plan is asked for.
  Picoseconds of_no_use() const {
    Picoseconds best = known_;
    if (best_.ok() && (best.count == 0 || best_->candidate.score.iteration < best))
      best = best_->candidate.score.iteration;
    return {static_cast<std::int64_t>(kOfNoUse * static_cast<double>(best.count))};
  }
  bool fits(const Score& score) const { return serial_ || in_.evaluator.fits(score); }
  void whole_graph();
  std::vector<ChainPlan> chain(const std::vector<std::vector<Layout>>& layouts, std::int64_t limit = 0);
  void whole_plans(const std::vector<ChainPlan>& plans);
  void parts();
  void take(Result<Outcome> other);
  void keep(Outcome plan);
  bool copies_may_fit(int parts = 1) const { return serial_ || unity::copies_may_fit(in_, parts); }
  void map_plainly();
  void map_on_shares();
  void store_parts(const std::optional<Outcome>& data);
  void trade_memory();
  void join_gradients();
  void hide();
  void finish_stopped(const std::optional<Outcome>& data);
  void rewrite_for_pipelines();
  Result<Outcome> pipelines(bool join = true, bool each_operator = false, int layers = 8);
  void progress(const std::string& stage, double fraction) const;

  const StrategyInput in_;
  bool serial_, rewritten_;
  Picoseconds known_;
  std::vector<Rule> rules_;
  PreparedRules prepared_;
  PartChain chain_;
  std::optional<Outcome> rewriting_;   // the graph that pipelines are made of, where it is not the model
  std::optional<IntraPlans> stages_;   // of pipelines, if there are to be any
  std::set<Hash> assembled_, traded_;  // of plans that were made to need less memory, and what they became
  std::optional<Hash> stored_of_;      // the graph that was tried with its weights in parts
  std::set<Hash> hidden_of_;           // graphs whose communications were hidden
  std::optional<Hash> joined_of_;      // the graph whose buckets are chosen
  std::int64_t promised_ = std::numeric_limits<std::int64_t>::max();  // the least sum of parts' times
  Result<Outcome> best_ = fail("strategy unity: no plan was found");
  std::string stopped_;          // why the search of the graph as a whole ended
  std::vector<Outcome> front_;   // complete plans by time and memory, whether they fit or not
  std::vector<Outcome> hidden_;  // variants of some in which communications are hidden
  std::vector<Outcome> rivals_;  // complete plans of all kinds, each the fastest of its kind
  FastestPlans fastest_;         // of those that fit, to be mapped on all shares
};

void JointSearch::progress(const std::string& stage, double fraction) const {
  if (in_.options.progress)
    in_.options.progress(
        {stage, in_.evaluator.scored(), fraction, best_.ok() ? best_->candidate.score.iteration : Picoseconds{}});
}

std::vector<Part> JointSearch::parts_of(const StrategyInput& input, const std::vector<Rule>& rules) {
  if (input.options.splitting) return split(input.model, input.options.minimum_part, rules);
  return {{0, input.model.size(), {}, {}}};
}

SubstitutionOptions JointSearch::level_2() const {
  SubstitutionOptions options;
  options.alpha = in_.options.alpha;
  options.devices = in_.devices;
  options.parallelism = in_.options.parallelism;
  options.rules = &rules_, options.prepared = &prepared_;
  options.incremental_matching = in_.options.incremental_matching;
  options.one_device = serial_, options.growth = in_.options.growth, options.uneven = in_.options.uneven;
  if (serial_) options.rewriting_share = 1;
  return options;
}

SubstitutionOptions JointSearch::level_2_of_parts() const {
  SubstitutionOptions options = level_2();
  options.bucket = bucket();
  // What takes longer may need less memory, where that is wanted.
  if (in_.devices > kManyDevices && !in_.options.pareto && copies_may_fit()) options.far_above = kFarAbove;
  return options;
}

std::vector<ChainPlan> JointSearch::chain(const std::vector<std::vector<Layout>>& layouts, std::int64_t limit) {
  return chain_.run(layouts, limit, [&](const std::string& stage) {
    progress(stage, 0.5 * static_cast<double>(in_.evaluator.scored()) / in_.options.budget);
  });
}

void JointSearch::whole_graph() {
  SubstitutionOptions options = level_2();
  const int budget = serial_ ? in_.options.budget : budget_of_parts();
  options.budget = std::max<int>(0, budget - static_cast<int>(in_.evaluator.scored()));
  options.whole = !serial_;
  options.thorough = !serial_ && compute_operators(in_.model) <= kSmall;
  options.keep = options.thorough ? 512 : 16;
  if (options.thorough) {
    // A share of it comes on top, for graphs of more operators.
    options.budget -= options.budget / (options.rewriting_share + 1);
    options.budget = std::min(options.budget, kThoroughBudget);
  } else if (!serial_ && !in_.options.pareto && of_no_use().count > 0) {
    options.patience = kWholePatience;
    options.few = kFewOfWhole;
    options.limit = of_no_use();
  }
  std::vector<State> start = {{normalize(in_.model), {}, {}}};
  SubstitutionResult result = substitute(start, in_.evaluator, options);
  if (options.thorough && in_.options.mapping_dp)
    improve_mappings(result.found, in_.evaluator,
                     std::min<std::int64_t>(kMappingBudget, (in_.options.budget - in_.evaluator.scored()) / 2));
  if (in_.evaluator.scored() >= budget)
    result.stopped_because = fmt::format("budget of {} candidates", in_.options.budget);
  stopped_ = result.stopped_because;
  if (result.found.empty()) take(fail("strategy unity: no candidate could be lowered"));
  for (Found& f : result.found) {
    Outcome complete{std::move(f.candidate), std::move(f.state.steps), result.stopped_because, {}};
    keep(complete);
    take(std::move(complete));
  }
}

// The fastest plan that fits; of plans that do not fit, the error of the smallest.
void JointSearch::take(Result<Outcome> other) {
  const std::optional<Score>& smallest = in_.evaluator.smallest();
  if (!other.ok()) {
    if (!best_.ok() && !smallest) best_ = other.error();
    return;
  }
  if (!fits(other->candidate.score)) {
    if (!best_.ok())
      best_ = does_not_fit(in_.options.strategy, smallest ? *smallest : other->candidate.score, in_.evaluator);
    return;
  }
  if (!serial_) fastest_.keep(*other);
  if (!best_.ok() || other->candidate.score.iteration < best_->candidate.score.iteration) best_ = std::move(other);
}

void JointSearch::keep(Outcome plan) {
  if (serial_) return;
  front_.push_back(std::move(plan));
  keep_front(front_);
}

// The mapping search adds up pieces, and may spread single tasks over devices whose links are busy.
void JointSearch::map_plainly() {
  if (!best_.ok() || !in_.options.mapping_dp || runs_in_stages(best_->candidate.pcg, best_->candidate.mappings)) return;
  const Candidate& best = best_->candidate;
  std::vector<MachineMapping> plain = natural_mappings(best.pcg);
  if (plain == best.mappings || in_.evaluator.scored() >= in_.options.budget) return;
  auto candidate = in_.evaluator.evaluate(best.pcg, std::move(plain), best.schedule);
  if (!candidate.ok()) return;
  in_.evaluator.found(candidate->score);
  take(Outcome{std::move(*candidate), best_->derivation, best_->stopped_because, {}});
}

// Last, so that no step before goes another way by it: the fastest plans, on other shares of the machine than halves.
void JointSearch::map_on_shares() {
  if (!best_.ok() || known_.count > 0 || !in_.options.mapping_dp || in_.evaluator.scored() >= in_.options.budget)
    return;
  fastest_.keep(*best_);
  for (Outcome& plan : fastest_.on_shares(in_)) {
    if (plan.stopped_because.empty()) plan.stopped_because = best_->stopped_because;
    in_.evaluator.found(plan.candidate.score);
    keep(plan);
    take(std::move(plan));
  }
}

// Of the fastest plan, which pipelines have to be faster than, and of data parallelism, where that may be the fastest
// then (ZeRO).
void JointSearch::store_parts(const std::optional<Outcome>& data) {
  if (front_.empty() || !in_.options.stored_parts) return;
  Outcome fastest = front_.front();
  if (best_.ok() && best_->candidate.score.iteration <= fastest.candidate.score.iteration) fastest = *best_;
  if (best_.ok()) fastest.stopped_because = best_->stopped_because;
  auto time = [](const Outcome& plan) { return static_cast<double>(plan.candidate.score.iteration.count); };
  stored_of_ = canonical_hash(fastest.candidate.pcg);
  std::vector<Outcome> tried = memory_tradeoffs(fastest, in_, Tradeoffs::stored_parts);
  if (data && time(*data) <= kStoredMayGain * time(fastest) && canonical_hash(data->candidate.pcg) != stored_of_)
    for (Outcome& variant : memory_tradeoffs(*data, in_, Tradeoffs::stored_parts)) tried.push_back(std::move(variant));
  for (Outcome& variant : tried) {
    in_.evaluator.found(variant.candidate.score);
    keep(variant), rivals_.push_back(variant);
    take(std::move(variant));
  }
}

// What passes wait for, hidden behind other micro-batches and gradients of weights: the fastest plan may be another one
// then.
void JointSearch::hide() {
  std::vector<Outcome> plans = rivals_;
  plans.insert(plans.end(), front_.begin(), front_.end());
  for (Outcome& plan : hide_communications(plans, in_, hidden_of_)) {
    if (best_.ok() && plan.stopped_because.empty()) plan.stopped_because = best_->stopped_because;
    hidden_.push_back(plan);
    rivals_.push_back(plan);
    take(std::move(plan));
  }
}

// Joined, many small gradients take less time, where they are many: which plan is the fastest may be another one then.
void JointSearch::join_gradients() {
  std::vector<Outcome> scored;
  if (best_.ok()) {
    // What is so much slower gains too little; of the best graph it is known.
    std::erase_if(rivals_, [&](const Outcome& o) { return o.candidate.score.iteration > of_no_use(); });
    Hash best = canonical_hash(best_->candidate.pcg);
    if (best == joined_of_)
      std::erase_if(rivals_, [&](const Outcome& o) { return canonical_hash(o.candidate.pcg) == best; });
  }
  std::optional<Outcome> joined = choose_buckets(rivals_, in_, scored);
  for (Outcome& plan : scored) {
    if (fits(plan.candidate.score)) fastest_.keep(plan);
    keep(std::move(plan));
  }
  // It may be as fast with each gradient on its own.
  if (joined && (!best_.ok() || joined->candidate.score.iteration <= best_->candidate.score.iteration))
    best_ = std::move(*joined);
  if (best_.ok()) joined_of_ = canonical_hash(best_->candidate.pcg);
  rivals_.clear();
}

// A search that was cut short has joined no gradients and hidden nothing: a few candidates are for that. Data
// parallelism may gain the most.
void JointSearch::finish_stopped(const std::optional<Outcome>& data) {
  if (!best_.ok() || serial_ || rewritten_ || known_.count > 0 || !in_.evaluator.stopping()) return;
  const bool hides = in_.options.overlap && in_.options.schedule.overlap == 0 && in_.devices <= kVeryManyDevices;
  std::vector<Outcome> plans = {*best_};
  if (data && canonical_hash(data->candidate.pcg) != canonical_hash(best_->candidate.pcg)) plans.push_back(*data);
  for (const Outcome& plan : plans) {
    if (runs_in_stages(plan.candidate.pcg, plan.candidate.mappings)) continue;
    for (bool hidden : {false, true})
      for (bool joined : {false, true}) {
        Schedule schedule = plan.candidate.schedule;
        if (hidden && hides && schedule.overlap == 0) schedule.overlap = 1;
        if (joined && buckets_are_free() && schedule.bucket.count == 0) schedule.bucket = kUsualBucket;
        if (schedule == plan.candidate.schedule) continue;
        in_.evaluator.score_after_stop(1);
        auto candidate = in_.evaluator.evaluate(plan.candidate.pcg, plan.candidate.mappings, schedule);
        in_.evaluator.score_after_stop(0);
        if (!candidate.ok()) continue;
        in_.evaluator.found(candidate->score);
        take(Outcome{std::move(*candidate), plan.derivation, plan.stopped_because, {}});
      }
  }
}

// Weights stored in parts may even be faster. Beyond that, plans that do not fit are made to fit where they are faster
// than the best one that does; with `pareto`, all plans are varied.
void JointSearch::trade_memory() {
  bool pareto = in_.options.pareto;
  std::vector<Outcome> plans = front_;
  for (std::size_t i = 0; i < plans.size() && !in_.evaluator.stopping(); ++i) {
    Outcome& plan = plans[i];
    bool slower = best_.ok() && !may_gain(plan, *best_);
    if ((slower && !pareto && i > 0) || !traded_.insert(plan_hash(plan)).second) continue;
    bool enough = fits(plan.candidate.score) && !pareto;
    if (enough && !in_.options.stored_parts) continue;
    // A pipeline's parts were stored so by the search for its stages; here its operators would be mapped anew.
    if (enough && (runs_in_stages(plan.candidate.pcg, plan.candidate.mappings) ||
                   canonical_hash(plan.candidate.pcg) == stored_of_))
      continue;
    if (plan.stopped_because.empty() && best_.ok()) plan.stopped_because = best_->stopped_because;
    for (Outcome& variant : memory_tradeoffs(plan, in_, enough ? Tradeoffs::stored_parts : Tradeoffs::all)) {
      in_.evaluator.found(variant.candidate.score);
      traded_.insert(plan_hash(variant));
      keep(variant);
      take(std::move(variant));
    }
  }
}

// Scores what the parts' solutions make together, each graph once.
void JointSearch::whole_plans(const std::vector<ChainPlan>& plans) {
  SearchRecorder& record = in_.evaluator.record();
  std::vector<State> states;
  for (const ChainPlan& plan : plans) promised_ = std::min(promised_, plan.time);
  for (const ChainPlan& plan : plans) {
    if (in_.evaluator.stopping()) break;
    if (best_.ok() && !in_.options.pareto &&
        static_cast<double>(plan.time) > kFarSlower * static_cast<double>(promised_)) {
      record.left_out(LeftOut::given_up);
      continue;
    }
    auto state = record.timed(SearchLevel::split, [&] { return chain_.assemble(plan); });
    if (!state.ok())
      take(state.error());
    else if (!assembled_.insert(canonical_hash(state->pcg)).second)
      record.left_out(LeftOut::duplicate);
    else
      states.push_back(std::move(*state));
  }
  std::vector<Result<Candidate>> candidates(states.size(), fail("the search was stopped"));
  std::int64_t number = in_.evaluator.scored();
  Schedule joined = in_.options.schedule;
  joined.bucket = bucket();
  // On many devices, what a few do not tell takes long to score, and is slow: exchanges that cross all nodes.
  auto score = [&](bool all) {
    parallel_for(states.size(), in_.evaluator.threads(), [&](std::size_t i) {
      candidates[i] = all ? in_.evaluator.evaluate(states[i].pcg, joined)
                          : in_.evaluator.evaluate_part(states[i].pcg, joined.bucket);
    });
  };
  score(false);
  if (!best_.ok() && std::none_of(candidates.begin(), candidates.end(), [](const auto& c) { return c.ok(); }))
    score(true);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!candidates[i].ok()) {
      take(candidates[i].error());
      continue;
    }
    if (!serial_) in_.evaluator.found(candidates[i]->score, ++number);
    Outcome complete{std::move(*candidates[i]), std::move(states[i].steps), {}, {}};
    keep(complete);
    take(std::move(complete));
  }
}

// First one chain for each layout, alike at all cuts; of the fastest layouts then all pairs. Whole plans are scored as
// soon as they promise something, so that there is one to return when the search is stopped.
void JointSearch::parts() {
  std::vector<std::vector<Layout>> layouts = chain_.layouts_at_cuts();
  std::vector<Layout> groups;
  auto among = [](const std::vector<Layout>& list, const Layout& layout) {
    return std::any_of(list.begin(), list.end(), [&](const Layout& l) { return alike(l, layout); });
  };
  for (const Layout& layout : layouts[0])
    if (!among(groups, layout)) groups.push_back(layout);
  // What is left undone when the budget is spent is what uses fewer devices, and splits the batch less.
  std::stable_sort(groups.begin(), groups.end(), [](const Layout& a, const Layout& b) {
    return std::pair(a.tasks(), a.degrees[0]) > std::pair(b.tasks(), b.degrees[0]);
  });
  auto only = [&](const std::vector<Layout>& kept) {
    std::vector<std::vector<Layout>> some = layouts;
    for (std::vector<Layout>& at_cut : some) std::erase_if(at_cut, [&](const Layout& l) { return !among(kept, l); });
    return some;
  };
  std::vector<ChainPlan> uniform;
  for (const Layout& group : groups) {
    std::int64_t limit = 0;
    if (best_.ok() && promised_ != std::numeric_limits<std::int64_t>::max())
      limit =
          static_cast<std::int64_t>((in_.devices > kManyDevices ? kSlower : kFarSlower) *
                                    static_cast<double>(std::max(promised_, best_->candidate.score.iteration.count)));
    std::vector<ChainPlan> found = chain(only({group}), limit);
    if (!found.empty() && found[0].time < promised_) whole_plans({found[0]});
    uniform.insert(uniform.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  keep_front(uniform);
  std::vector<Layout> fastest;
  for (const ChainPlan& p : uniform) {
    const Layout& layout = p.chosen[0].first;
    if (!among(fastest, layout) && fastest.size() < kLayoutsKept) fastest.push_back(layout);
  }
  std::vector<ChainPlan> plans = chain(only(fastest));
  plans.insert(plans.end(), uniform.begin(),
               uniform.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(uniform.size(), 4)));
  // What needs the least memory is kept too: when nothing faster fits, it may.
  if (!uniform.empty()) plans.push_back(uniform.back());
  progress("whole plans", 0.5), whole_plans(plans);
}

// Pipelines of a large model are made of the graph that is fastest on one device: its layers repeat, so that it is soon
// found. Of small ones both graphs are looked at, in two searches.
void JointSearch::rewrite_for_pipelines() {
  if (!in_.options.algebra || rewritten_ || compute_operators(in_.model) <= kFewOperators) return;
  SearchOptions serial = in_.options;
  auto scored = static_cast<int>(in_.evaluator.scored());
  serial.budget = scored + std::max(1, (in_.options.budget - scored) / 4);
  Result<Outcome> fastest = JointSearch({in_.model, in_.evaluator, serial, 1}, {.serial = true}).run();
  if (fastest.ok() && canonical_hash(fastest->candidate.pcg) != canonical_hash(normalize(in_.model)))
    rewriting_ = std::move(*fastest);
}

// Pipelines: their micro-batches are beyond what parts of the graph are searched for. `join`: gradients to begin with
// as those of the plan that they have to beat. `each_operator`: only with ways of their own. `layers`: of many devices.
Result<Outcome> JointSearch::pipelines(bool join, bool each_operator, int layers) {
  SearchOptions joined = in_.options;
  if (best_.ok() && join) joined.schedule.bucket = best_->candidate.schedule.bucket;
  StageSearchOptions options{.layers = {8, 12, 24}, .plans = 12, .buckets = buckets_are_free()};
  options.overlap = options.mixed = true, options.even = in_.options.seeds && !each_operator;
  options.by_layers = !each_operator, options.each_operator = each_operator;
  if (in_.devices > kManyDevices) options.layers = {layers};
  if (rewritten_) options.share = 0.5;  // pipelines of the model as it is were looked at
  options.improvements =
      static_cast<int>(std::clamp<std::int64_t>(in_.options.budget - in_.evaluator.scored(), 0, kPipelineBudget));
  options.incumbent = known_;
  if (best_.ok() && fits(best_->candidate.score) && (known_.count == 0 || best_->candidate.score.iteration < known_))
    options.incumbent = best_->candidate.score.iteration;
  if (!rewriting_) return search_stages({in_.model, in_.evaluator, joined, in_.devices}, options, *stages_);
  Result<Outcome> found =
      search_stages({rewriting_->candidate.pcg, in_.evaluator, joined, in_.devices}, options, *stages_);
  if (!found.ok() && !in_.evaluator.stopping()) {  // what is fastest on one device may not be splittable
    rewriting_.reset();
    stages_.emplace(in_.model, in_);
    return pipelines(join, each_operator, layers);
  }
  if (!found.ok()) return found;
  auto lead = [&](Outcome& plan) {
    plan.derivation.insert(plan.derivation.begin(), rewriting_->derivation.begin(), rewriting_->derivation.end());
  };
  lead(*found);
  for (Outcome& rival : found->rivals) lead(rival);
  return found;
}

Result<Outcome> JointSearch::run() {
  // The search that was asked for, rather than one within it or after another.
  const bool first = !serial_ && !rewritten_ && known_.count == 0;
  // Data parallelism is in the space; scoring it as a whole makes sure that no sum of pieces hides it, and that there
  // is a plan from the first second on.
  std::optional<Result<Outcome>> data;
  if (in_.options.seeds && is_allowed({"data"}, in_.options.parallelism) && copies_may_fit()) data = data_parallel(in_);
  if (data && data->ok() && !serial_) in_.evaluator.found((*data)->candidate.score);
  const bool with_stages = first || rewritten_;
  auto compare = [&](Result<Outcome> plan) {
    if (!plan.ok()) return;
    in_.evaluator.found(plan->candidate.score);
    for (Outcome& other : std::exchange(plan->rivals, {})) rivals_.push_back(std::move(other));
    keep(*plan);
    rivals_.push_back(*plan);
    take(std::move(plan));
  };
  if (budget_of_parts() < in_.options.budget) {
    // So are the expert's plans, whose one rule for all layers is hard to find part by part. The expert splits it
    // within a node at most.
    if (first && in_.options.seeds && copies_may_fit(common_node_size(in_.evaluator.cost().topology())))
      compare(expert(in_));
    // Nor do parts of the graph tell where many small things are best, each on a device.
    if (with_stages) compare(placed_operators(in_, bucket()));
  }
  // Where a model is too large for each device, a pipeline is what fits.
  bool too_large = first && in_.devices > kManyDevices && !(data && data->ok() && fits((*data)->candidate.score));
  if (with_stages) {
    // There, a plan that fits is hard to find, and known to be one of the model as it is.
    if (first && !too_large) rewrite_for_pipelines();
    stages_.emplace(rewriting_ ? rewriting_->candidate.pcg : in_.model, in_);
  }
  if (too_large && stages_) compare(pipelines());
  // Of very many devices all in one stage, a single candidate takes seconds and gigabytes. The pipelines have their
  // gradients joined, and memory traded.
  if (too_large && in_.devices > kVeryManyDevices && !in_.options.pareto && best_.ok() &&
      fits(best_->candidate.score)) {
    progress("done", 1);
    return std::move(best_);
  }
  std::string why;
  // What stages can do inside needs nothing of what rewritings find; where these may leave no budget, it is not asked.
  const bool ahead = stages_ && in_.options.budget - budget_of_parts() >= kPipelineBudget;
  parallel_for(ahead ? 2 : 1, in_.evaluator.threads(), [&](std::size_t i) {
    if (i == 1) return stages_->prepare(stage_widths(in_));
    chain_.parts().size() == 1 ? whole_graph() : parts();
  });
  if (chain_.parts().size() == 1) {
    why = stopped_;
  } else {
    why = in_.evaluator.scored() >= budget_of_parts() ? fmt::format("budget of {} candidates", in_.options.budget)
          : in_.evaluator.scored() >= chain_.budget()
              ? fmt::format("{} candidates for its many large parts", chain_.budget())
              : fmt::format("{} parts exhausted under all layouts of their cuts", chain_.parts().size());
  }
  if (!serial_) map_plainly();
  if (best_.ok()) rivals_.push_back(*best_);
  std::optional<Outcome> data_plan;
  if (data && data->ok()) keep(**data), rivals_.push_back(**data), data_plan = **data;
  if (data) take(std::move(*data));
  if (!serial_) hide(), join_gradients(), map_plainly();
  if (with_stages && in_.evaluator.scored() < in_.options.budget && !in_.evaluator.stopping()) {
    store_parts(data_plan);
    if (!best_.ok() && stages_) trade_memory();  // pipelines have to beat what fits, if anything does
    if (!too_large && stages_) compare(pipelines());
    // The walk from gradients that are not joined, or on many devices from other layers, may end elsewhere.
    const bool many = in_.devices > kManyDevices, small = compute_operators(in_.model) <= kFewOperators;
    const bool again =
        many ? first && in_.devices <= kVeryManyDevices : in_.devices > kFewDevices && buckets_are_free();
    if (small && again && !too_large && stages_) compare(many ? pipelines(true, false, 12) : pipelines(false));
    // Where graphs are small, rewritings crowd out shardings; one after the other, they do not.
    if (first && in_.options.algebra && small) {
      Picoseconds known = best_.ok() ? best_->candidate.score.iteration : Picoseconds{};
      compare(algebra_then_parallel(in_, known));
    }
    // Last: it would change where the walks before it look. Where micro-batches cannot pay, parts of the graph tell
    // more.
    if (!too_large && stages_ && in_.options.templates && in_.devices <= kManyDevices && !stages_->waits_for_batch())
      compare(pipelines(true, true));
  }
  if (!serial_) {
    if (best_.ok()) rivals_.push_back(*best_);
    hide();
    join_gradients();
    progress("memory for time", 0.9);
    trade_memory();
    map_on_shares();
    for (Outcome& plan : hidden_) keep(std::move(plan));
    if (in_.options.pareto && best_.ok()) best_->front = front_;
    finish_stopped(data_plan);
  }
  if (best_.ok() && !why.empty()) best_->stopped_because = why;
  progress("done", 1);
  return std::move(best_);
}

Result<Outcome> algebra_then_parallel(const StrategyInput& input, Picoseconds known) {
  SearchOptions serial = input.options, parallel = input.options;
  auto scored = static_cast<int>(input.evaluator.scored());
  serial.budget = scored + std::max(1, (input.options.budget - scored) / 4);
  parallel.algebra = false;
  Outcome fastest = UNITY_TRY(JointSearch({input.model, input.evaluator, serial, 1}, {.serial = true}).run());
  const Pcg& graph = fastest.candidate.pcg;
  // Where there is a plan already, pipelines of the model as it is were looked at.
  bool rewritten = known.count == 0 || canonical_hash(graph) != canonical_hash(normalize(input.model));
  JointSearch second({graph, input.evaluator, parallel, input.devices}, {.known = known, .rewritten = rewritten});
  Outcome outcome = UNITY_TRY(second.run());
  outcome.derivation.insert(outcome.derivation.begin(), fastest.derivation.begin(), fastest.derivation.end());
  return outcome;
}

}  // namespace

Result<Outcome> joint_search(const StrategyInput& input) { return JointSearch(input).run(); }

// As compilers do it: first the graph that is fastest on one device, then how to split that graph over the devices.
Result<Outcome> algebra_then_parallel(const StrategyInput& input) { return algebra_then_parallel(input, {}); }

}  // namespace unity
