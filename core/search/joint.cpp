// The joint search: level 1 (split, part_chain) over level 2 (substitution) over level 3 (mapping). What ranks the
// complete plans is the simulation of the whole iteration.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/ahead.h"
#include "core/base/parallel.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/device_memory.h"
#include "core/search/device_speeds.h"
#include "core/search/found_plans.h"
#include "core/search/gradient_buckets.h"
#include "core/search/improve_mappings.h"
#include "core/search/lower_bound.h"
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

// The graph that is fastest on one device.
Result<Outcome> algebra_alone(const StrategyInput& input);
// `fastest`: that graph; `known`: the iteration of a plan that is there already; 0: none.
Result<Outcome> algebra_then_parallel(const StrategyInput& input, Outcome fastest, Picoseconds known);

constexpr std::size_t kLayoutsKept = 3;        // of the uniform ones, for which all pairs are then tried
constexpr int kWholePatience = 1000;           // of whole graphs, and
constexpr int kFewOfWhole = 400;               // after which no plan may be twice as slow as
constexpr double kOfNoUse = 2;                 // the best known
constexpr double kFarAbove = 1.1;              // of estimates of a part
constexpr double kFarSlower = 1.25;            // than the best layout: others need not be looked at closely;
constexpr double kSlower = 1.15;               // on many devices
constexpr std::ptrdiff_t kSmall = 12;          // compute operators of a graph that is searched thoroughly
constexpr std::ptrdiff_t kFewOperators = 100;  // of a graph whose algebra is also searched first, by itself
constexpr int kFewDevices = 24;                // to sum gradients up
constexpr int kThoroughBudget = 1000;          // graphs that are scored then
constexpr int kWholeShare = 6;                 // of the budget, one in so many is for complete plans
constexpr int kSecondShare = 2;                // and one of so many at least for a second search
constexpr int kLayers = 8, kOtherLayers = 12;  // of pipelines on many devices, of the first look and of the second
constexpr int kPipelineBudget = 240;           // pipelines that are scored to improve the best one
constexpr double kMuch = 1.75;                 // times the certificate
constexpr int kStepsAnew = 100;                // of a look that begins whatever is known
constexpr int kMappingBudget = 3000;           // mappings of the best of them

class JointSearch {
 public:
  explicit JointSearch(const StrategyInput& input) : JointSearch(input, SearchPurpose()) {}
  JointSearch(const StrategyInput& input, const SearchPurpose& purpose)
      : in_(input),
        serial_(purpose.serial),
        rewritten_(purpose.rewritten),
        known_(purpose.known),
        rules_(rules_of(input.options)),
        found_(in_, purpose, rules_),
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
  std::string parts_searched() const;
  bool buckets_are_free() const { return in_.options.buckets && in_.options.schedule.bucket.count == 0; }
  // What takes so long is not worth a look where only the fastest plan is asked for.
  Picoseconds of_no_use() const {
    Picoseconds best = known_;
    if (found_.has_best() && (best.count == 0 || found_.best_time() < best)) best = found_.best_time();
    return {static_cast<std::int64_t>(kOfNoUse * static_cast<double>(best.count))};
  }
  void whole_graph();
  std::vector<ChainPlan> chain(const std::vector<std::vector<Layout>>& layouts, std::int64_t limit = 0);
  void whole_plans(const std::vector<ChainPlan>& plans, bool rivals = false);
  void parts();
  bool copies_may_fit(int parts = 1) const { return serial_ || unity::copies_may_fit(in_, parts); }
  void begin_algebra();
  Result<Outcome> end_algebra();
  bool may_gain_much() const;
  void rewrite_for_pipelines();
  Result<Outcome> pipelines(bool join = true, bool each_operator = false, int layers = kLayers, bool anew = false);
  void progress(const std::string& stage, double fraction) const;

  const StrategyInput in_;
  bool serial_, rewritten_;
  Picoseconds known_;
  std::vector<Rule> rules_;
  FoundPlans found_;
  PreparedRules prepared_;
  PartChain chain_;
  std::optional<Outcome> rewriting_;                  // the graph that pipelines are made of, where it is not the model
  std::optional<IntraPlans> stages_;                  // of pipelines, if there are to be any
  std::map<std::int64_t, StageProposals> proposals_;  // made of these, by how gradients are joined
  std::set<Hash> assembled_;                          // graphs of complete plans
  std::int64_t promised_ = std::numeric_limits<std::int64_t>::max();  // the least sum of parts' times
  std::optional<std::pair<ChainPlan, Picoseconds>> fastest_chain_;    // of the complete plans made of parts
  std::string stopped_;                                               // why the search of the graph as a whole ended
  std::optional<Evaluator> beside_;                                   // of the graph that is fastest on one device
  std::optional<Ahead<Result<Outcome>>> algebra_;                     // which is that graph
};

void JointSearch::progress(const std::string& stage, double fraction) const {
  if (in_.options.progress)
    in_.options.progress(
        {stage, in_.evaluator.scored(), fraction, found_.has_best() ? found_.best_time() : Picoseconds{}});
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

// Why their search ended.
std::string JointSearch::parts_searched() const {
  std::string all = fmt::format("{} parts exhausted under all layouts of their cuts", chain_.parts().size());
  if (chain_.cut_short() == 0) return all;
  return fmt::format("{}, {} of {} as far as their budgets went", all, chain_.cut_short(), chain_.searched());
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
  else if (result.out_of_budget && !serial_)
    result.stopped_because = fmt::format("budget of {} graphs as a whole", options.budget);
  stopped_ = result.stopped_because;
  if (result.found.empty()) found_.take(fail("strategy {}: no candidate could be lowered", in_.options.strategy));
  for (Found& f : result.found) {
    Outcome complete{std::move(f.candidate), std::move(f.state.steps), result.stopped_because, {}};
    found_.keep(complete);
    found_.take(std::move(complete));
  }
}

// Scores what the parts' solutions make together, each graph once. `rivals`: they may overtake what is faster.
void JointSearch::whole_plans(const std::vector<ChainPlan>& plans, bool rivals) {
  SearchRecorder& record = in_.evaluator.record();
  std::vector<const ChainPlan*> promising, made_of;
  for (const ChainPlan& plan : plans) promised_ = std::min(promised_, plan.time);
  for (const ChainPlan& plan : plans) {
    if (found_.has_best() && !in_.options.pareto &&
        static_cast<double>(plan.time) > kFarSlower * static_cast<double>(promised_))
      record.left_out(LeftOut::given_up);
    else
      promising.push_back(&plan);
  }
  std::vector<std::optional<Result<State>>> whole(promising.size());
  parallel_for(whole.size(), in_.evaluator.threads(), [&](std::size_t i) {
    if (in_.evaluator.stopping()) return;
    whole[i] = record.timed(SearchLevel::split, [&] { return chain_.assemble(*promising[i]); });
  });
  std::vector<State> states;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!whole[i]) continue;
    Result<State>& state = *whole[i];
    if (!state.ok())
      found_.take(state.error());
    else if (!assembled_.insert(canonical_hash(state->pcg)).second)
      record.left_out(LeftOut::duplicate);
    else
      states.push_back(std::move(*state)), made_of.push_back(promising[i]);
  }
  std::vector<Result<Candidate>> candidates(states.size(), fail("the search was stopped"));
  std::int64_t number = in_.evaluator.scored();
  Schedule joined = in_.options.schedule;
  joined.bucket = bucket();
  // On many devices, what a few do not tell takes long to score, and is slow: exchanges that cross all nodes.
  auto score = [&](bool all) {
    parallel_for(states.size(), in_.evaluator.threads(), [&](std::size_t i) {
      candidates[i] = serial_ ? in_.evaluator.evaluate(states[i].pcg, natural_mappings(states[i].pcg), joined)
                      : all   ? in_.evaluator.evaluate(states[i].pcg, joined)
                              : in_.evaluator.evaluate_part(states[i].pcg, joined.bucket);
    });
  };
  score(false);
  if (!found_.has_best() && std::none_of(candidates.begin(), candidates.end(), [](const auto& c) { return c.ok(); }))
    score(true);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!candidates[i].ok()) {
      found_.take(candidates[i].error());
      continue;
    }
    if (!serial_) in_.evaluator.found(candidates[i]->score, ++number);
    const Picoseconds time = candidates[i]->score.iteration;
    if (found_.fits(candidates[i]->score) && (!fastest_chain_ || time < fastest_chain_->second))
      fastest_chain_ = {*made_of[i], time};
    Outcome complete{std::move(*candidates[i]), std::move(states[i].steps), {}, {}};
    found_.keep(complete);
    if (rivals) found_.add_rival(complete);
    found_.take(std::move(complete));
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
    if (found_.has_best() && promised_ != std::numeric_limits<std::int64_t>::max())
      limit = static_cast<std::int64_t>((in_.devices > kManyDevices ? kSlower : kFarSlower) *
                                        static_cast<double>(std::max(promised_, found_.best_time().count)));
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
  progress("whole plans", 0.5);
  whole_plans(plans);
  // A rewriting that gains a little by itself may lose more between its neighbours.
  if (serial_ || !fastest_chain_) return;
  if (auto plain = without_rewritings(fastest_chain_->first)) whole_plans({*plain}, true);
}

// What that is needs nothing of what is found meanwhile. Of a large model pipelines are made of it, of a small one
// plans of every kind.
void JointSearch::begin_algebra() {
  beside_.emplace(Evaluator::Beside{in_.evaluator});
  algebra_.emplace(in_.evaluator.threads(), [this] {
    return algebra_alone({in_.model, *beside_, in_.options, in_.devices});
  });
}

Result<Outcome> JointSearch::end_algebra() {
  Result<Outcome> fastest = algebra_->get();
  in_.evaluator.count(*beside_);
  return fastest;
}

bool JointSearch::may_gain_much() const {
  if (!found_.has_best()) return true;
  const std::optional<Picoseconds> least = lower_bound(in_.model, in_.evaluator.cost(), in_.options);
  return !least || static_cast<double>(found_.best_time().count) > kMuch * static_cast<double>(least->count);
}

// Pipelines of a large model are made of the graph that is fastest on one device: its layers repeat, so that it is soon
// found. Of small ones both graphs are looked at, in two searches.
void JointSearch::rewrite_for_pipelines() {
  if (!algebra_ || compute_operators(in_.model) <= kFewOperators) return;
  Result<Outcome> fastest = end_algebra();
  if (fastest.ok() && canonical_hash(fastest->candidate.pcg) != canonical_hash(normalize(in_.model)))
    rewriting_ = std::move(*fastest);
}

// Pipelines: their micro-batches are beyond what parts of the graph are searched for. `join`: gradients to begin with
// as those of the plan that they have to beat. `each_operator`: only with ways of their own. `layers`: of many devices.
// `anew`: whatever is known.
Result<Outcome> JointSearch::pipelines(bool join, bool each_operator, int layers, bool anew) {
  SearchOptions joined = in_.options;
  if (found_.has_best() && join) joined.schedule.bucket = found_.best()->candidate.schedule.bucket;
  StageSearchOptions options{.layers = {8, 12, 24}, .plans = 12, .buckets = buckets_are_free()};
  options.overlap = options.mixed = options.selective = true, options.even = in_.options.seeds && !each_operator;
  options.by_layers = !each_operator, options.each_operator = each_operator;
  if (in_.devices > kManyDevices) options.layers = {layers};
  // Other pipelines were looked at: of the model as it is, or of other layers.
  if (rewritten_) options.share = 0.5;
  if (layers == kOtherLayers) options.share = 0.7;
  options.improvements =
      static_cast<int>(std::clamp<std::int64_t>(in_.options.budget - in_.evaluator.scored(), 0, kPipelineBudget));
  if (anew) options.improvements = std::min(options.improvements, kStepsAnew);
  if (!anew) options.incumbent = known_;
  if (!anew && found_.has_best() && found_.fits(found_.best()->candidate.score) &&
      (known_.count == 0 || found_.best_time() < known_))
    options.incumbent = found_.best_time();
  const Bytes bucket = joined.schedule.bucket;
  StageProposals& proposals = proposals_.try_emplace(bucket.count, in_, *stages_, bucket).first->second;
  const StrategyInput input{rewriting_ ? rewriting_->candidate.pcg : in_.model, in_.evaluator, joined, in_.devices};
  Result<Outcome> found = search_stages(input, options, proposals);
  if (!rewriting_) return found;
  if (!found.ok() && !in_.evaluator.stopping()) {  // what is fastest on one device may not be splittable
    rewriting_.reset();
    proposals_.clear();
    stages_.emplace(in_.model, in_);
    return pipelines(join, each_operator, layers, anew);
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
  const bool small = compute_operators(in_.model) <= kFewOperators;
  // Unless the model is known to be too large for each of many devices (below).
  if (first && in_.options.algebra && (small || copies_may_fit())) begin_algebra();
  // Data parallelism is in the space; scoring it as a whole makes sure that no sum of pieces hides it, and that there
  // is a plan from the first second on. Unequal shares of the batch are of a whole plan alone.
  std::optional<Result<Outcome>> data;
  // (What is fastest on one device is not to be compared with branches on several.)
  if (!serial_ && is_allowed({"data"}, in_.options.parallelism) && copies_may_fit()) {
    if (in_.options.seeds) data = data_parallel(in_);
    if (!in_.options.seeds) data = unequal_data_parallel(in_);
    if (!in_.options.seeds && data && !data->ok()) data.reset();  // as where all devices are alike
  }
  if (data && data->ok()) in_.evaluator.found((*data)->candidate.score);
  const bool with_stages = first || rewritten_;
  auto compare = [&](Result<Outcome> plan) {
    if (!plan.ok()) return;
    in_.evaluator.found(plan->candidate.score);
    for (Outcome& other : std::exchange(plan->rivals, {})) found_.add_rival(std::move(other));
    for (Outcome& other : std::exchange(plan->front, {})) found_.keep(std::move(other));
    found_.keep(*plan);
    found_.set_aside(*plan);
    found_.add_rival(*plan);
    found_.take(std::move(plan));
  };
  // Where a model is too large for each device, a pipeline is what fits.
  bool too_large = first && in_.devices > kManyDevices &&
                   !(data ? data->ok() && found_.fits((*data)->candidate.score) : copies_may_fit());
  if (too_large && !small) algebra_.reset();  // its pipelines are made of the model as it is
  if (budget_of_parts() < in_.options.budget) {
    std::optional<Result<Outcome>> experts, placed, placed_alone;
    const StrategyInput one{in_.model, in_.evaluator, in_.options, in_.devices, true};
    const bool twice = with_stages && bucket() != in_.options.schedule.bucket && in_.devices <= kManyDevices;
    parallel_for(twice ? 3 : 2, in_.evaluator.threads(), [&](std::size_t i) {
      // So are the expert's plans, whose one rule for all layers is hard to find part by part. The expert splits it
      // within a node at most.
      if (i == 0 && first && in_.options.seeds && copies_may_fit(common_node_size(in_.evaluator.cost().topology())))
        experts = expert(one);
      // Nor do parts of the graph tell where many small things are best, each on a device.
      if (i == 1 && with_stages) placed = placed_operators(one, bucket());
      // Where each gradient is summed on its own, more of them are placed, which may leave little to be joined.
      if (i == 2) placed_alone = placed_operators(one, in_.options.schedule.bucket);
    });
    for (auto* plan : {&experts, &placed, &placed_alone})
      if (*plan) compare(std::move(**plan));
  }
  if (with_stages) {
    // There, a plan that fits is hard to find, and known to be one of the model as it is.
    if (first && !too_large) rewrite_for_pipelines();
    stages_.emplace(rewriting_ ? rewriting_->candidate.pcg : in_.model, in_);
  }
  if (too_large && stages_) compare(pipelines());
  // Of very many devices all in one stage, a single candidate takes seconds and gigabytes. The pipelines have their
  // gradients joined, and memory traded.
  if (too_large && in_.devices > kVeryManyDevices && !in_.options.pareto && found_.has_best() &&
      found_.fits(found_.best()->candidate.score)) {
    progress("done", 1);
    return found_.release({});
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
              : parts_searched();
  }
  if (!serial_) found_.map_rivals_plainly();
  found_.add_best_as_rival();
  std::optional<Outcome> data_plan;
  if (data && data->ok()) found_.keep(**data), found_.add_rival(**data), data_plan = **data;
  if (data) found_.take(std::move(*data));
  if (!serial_) found_.hide(), found_.join_gradients(of_no_use()), found_.map_rivals_plainly();
  if (data_plan) found_.set_aside(*data_plan);
  const bool budget_left = in_.evaluator.scored() < in_.options.budget;
  if (with_stages && budget_left && !in_.evaluator.stopping()) {
    found_.store_parts(data_plan);
    if (!found_.has_best() && stages_) found_.trade_memory();  // pipelines have to beat what fits, if anything does
    if (!too_large && stages_) compare(pipelines());
    // The walk from gradients that are not joined, or on many devices from other layers, may end elsewhere.
    const bool many = in_.devices > kManyDevices;
    const bool again = many ? first && in_.devices <= kVeryManyDevices : in_.devices > kFewDevices;
    if (small && again && (many || buckets_are_free()) && !too_large && stages_)
      compare(many ? pipelines(true, false, kOtherLayers) : pipelines(false));
  }
  // Where graphs are small, rewritings crowd out shardings; one after the other, they do not.
  if (algebra_ && small && !in_.evaluator.stopping()) {
    // What all devices take is asked for at the end; likely of this plan.
    std::optional<Ahead<Result<Candidate>>> exact;
    if (found_.has_best() && !found_.best()->candidate.exact && in_.devices <= kVeryManyDevices)
      exact.emplace(in_.evaluator.threads(), [&, plan = found_.best()->candidate] {
        return in_.evaluator.evaluate_all(plan, kMostTasksOfPlan);
      });
    Picoseconds known = found_.has_best() ? found_.best_time() : Picoseconds{};
    if (Result<Outcome> fastest = end_algebra(); fastest.ok())
      compare(algebra_then_parallel(in_, std::move(*fastest), known));
  }
  // Last: it would change where the walks before it look. Where micro-batches cannot pay, parts of the graph tell
  // more.
  if (with_stages && budget_left && !too_large && stages_ && in_.options.templates && in_.devices <= kManyDevices &&
      !stages_->waits_for_batch() && !in_.evaluator.stopping())
    compare(pipelines(true, true));
  // What fits already hides pipelines that are found from plans too large for the devices. Where no device can hold all
  // of the model, and the certificate leaves room, they matter; of the model as it is, whose many small operators fill
  // devices better.
  if (with_stages && budget_left && !too_large && stages_ && in_.devices <= kManyDevices && !copies_fit(in_) &&
      !in_.evaluator.stopping() && may_gain_much()) {
    if (rewriting_) {
      rewriting_.reset();
      proposals_.clear();
      stages_.emplace(in_.model, in_);
    }
    compare(pipelines(true, false, kLayers, true));
  }
  if (!serial_) {
    found_.add_best_as_rival();
    found_.hide();
    found_.join_gradients(of_no_use());
    progress("memory for time", 0.9);
    const Picoseconds fitted = found_.has_best() ? found_.best_time() : Picoseconds{};
    found_.trade_memory();
    // What did not fit before had neither.
    if (found_.has_best() && (fitted.count == 0 || found_.best_time() < fitted)) {
      found_.add_best_as_rival();
      found_.hide();
      found_.join_gradients(of_no_use());
    }
    found_.map_on_shares();
    found_.finish_stopped(data_plan, buckets_are_free());
  }
  progress("done", 1);
  return found_.release(why);
}

Result<Outcome> algebra_alone(const StrategyInput& input) {
  SearchOptions serial = input.options;
  serial.progress = {};  // what takes so long on one device says little
  auto scored = static_cast<int>(input.evaluator.scored());
  serial.budget = scored + std::max(1, (input.options.budget - scored) / 4);
  return JointSearch({input.model, input.evaluator, serial, 1}, {.serial = true}).run();
}

Result<Outcome> algebra_then_parallel(const StrategyInput& input, Outcome fastest, Picoseconds known) {
  SearchOptions parallel = input.options;
  parallel.algebra = false;
  // Whatever another search has spent.
  parallel.budget =
      std::max(parallel.budget, static_cast<int>(input.evaluator.scored()) + parallel.budget / kSecondShare);
  const Pcg& graph = fastest.candidate.pcg;
  // Where there is a plan already, pipelines of the model as it is were looked at.
  bool rewritten = known.count == 0 || canonical_hash(graph) != canonical_hash(normalize(input.model));
  JointSearch second({graph, input.evaluator, parallel, input.devices}, {.known = known, .rewritten = rewritten});
  Outcome outcome = UNITY_TRY(second.run());
  auto lead = [&](Outcome& plan) {
    plan.derivation.insert(plan.derivation.begin(), fastest.derivation.begin(), fastest.derivation.end());
  };
  lead(outcome);
  for (std::vector<Outcome>* others : {&outcome.rivals, &outcome.front})
    for (Outcome& other : *others) lead(other);
  return outcome;
}

}  // namespace

Result<Outcome> joint_search(const StrategyInput& input) {
  if (input.options.micro_batches > 1)
    if (auto batches = with_micro_batches(normalize(input.model), input.options.micro_batches); !batches.ok())
      return fail("strategy unity: {}", batches.error().message);
  return JointSearch(input).run();
}

// As compilers do it: first the graph that is fastest on one device, then how to split that graph over the devices.
Result<Outcome> algebra_then_parallel(const StrategyInput& input) {
  Result<Outcome> fastest = algebra_alone(input);
  if (fastest.ok()) return algebra_then_parallel(input, std::move(*fastest), {});
  if (input.evaluator.stopping()) return fastest.error();
  Outcome model;  // a budget too small to find even that
  model.candidate.pcg = normalize(input.model);
  return algebra_then_parallel(input, std::move(model), {});
}

}  // namespace unity
