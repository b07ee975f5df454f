#include "core/search/stage_search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "core/base/parallel.h"
#include "core/search/data_parallel.h"
#include "core/search/exact_sharding.h"
#include "core/search/gradient_buckets.h"
#include "core/search/known_plans.h"
#include "core/search/mixed_pipelines.h"
#include "core/search/open_plans.h"
#include "core/search/parallelism.h"
#include "core/search/pipeline_stages.h"
#include "core/search/stage_layers.h"
#include "core/search/stage_moves.h"
#include "core/search/staged_plan.h"
#include "core/search/submesh.h"

namespace unity {
namespace {
constexpr double kMemoryMargin = 1.05;     // estimates of memory may be too high by so much, to begin with
constexpr double kMarginOfVeryMany = 0.9;  // of so many devices few plans can be simulated: they have to fit
constexpr double kFarTooLarge = 1.15;      // as estimated, of what is left out where something fits
constexpr int kCorrections = 2;            // of that, where what is proposed does not fit
constexpr double kFarSlower = 1.25, kFarSlowerOfSelective = 1.1;  // than the incumbent
constexpr double kSlower = 1.02;  // steps that made every plan so much slower are not worth it, of who is selective
constexpr double kAlpha = 1.05;   // than the best: what is slower is not improved, nor simulated where that is known
constexpr std::size_t kAlternating = 6;                  // of the proposals, also in the other order
constexpr std::size_t kInParts = 4, kInPartsOfMany = 1;  // of the proposals, also with several parts each
constexpr double kMayGain = 1.5;  // than the best: in another order, or with what is sent hidden, it may be faster
constexpr double kHopeless = 2, kHopelessAlone = 3, kHopelessAloneOfMany = 1.5;  // as estimated: half may yet be hidden
constexpr std::size_t kMovesAtOnce = 8;
constexpr double kTablesCount = 0.02;  // of a plan's time, dense gradients of tables
constexpr std::size_t kMixed = 6;      // plans of one stage, and of several, of which some operators leave the pipeline
constexpr double kPatience = 2.5e6, kPatienceOfMany = 0.5e6, kPatienceOfSelective = 0.3e6;  // tasks without a gain
constexpr double kLessPatience = 5;  // with operators that are split in ways of their own
constexpr double kGain = 0.998;      // times what the best took
constexpr double kMostTasks = 2e6;   // of the plans that are simulated on so many: at some 0.3 million a second
constexpr double kMostTasksOfSelective = 1.2e6;  // up to kManyTasksAt devices: on more, fewer, as all else takes longer
constexpr double kManyTasksAt = 96;
constexpr double kMostTasksOfOne = 2.5e6;
constexpr double kMostTasksOfSlow = 2e5;  // of one that is estimated to be far slower than what is known
constexpr double kMostTasksOfVeryMany = 10e6;
constexpr std::size_t kManyOperators = 2000;  // which call for more layers
constexpr int kManyLayers = 24;
constexpr int kLayersOfMost = 48;   // on so many devices that one plan is simulated: even stages matter most
constexpr int kMoreLayers = 16;     // on many devices, where they are even
constexpr std::size_t kAtOnce = 4;  // plans that are simulated while others are: they may spend its tasks, too

class StageSearch {
 public:
  StageSearch(const StrategyInput& input, const StageSearchOptions& options, StageProposals& proposals)
      : in_(input),
        options_(options),
        proposals_(proposals),
        plans_(proposals.plans()),
        estimates_(proposals.estimates()),
        effects_(proposals.effects()) {
    if (input.devices <= kManyDevices) return;
    if (input.devices > kVeryManyDevices) margin_ = kMarginOfVeryMany;
    patience_ = is_selective() ? kPatienceOfSelective : kPatienceOfMany;
    if (is_selective()) open_ = OpenPlans(proposals.taken());
    const double most =
        is_selective() ? kMostTasksOfSelective * std::min(1.0, kManyTasksAt / input.devices) : kMostTasks;
    tasks_left_ = options_.share * (input.devices > kVeryManyDevices ? kMostTasksOfVeryMany : most);
    options_.layers.resize(1);
    if (options_.layers[0] < kMoreLayers && are_even(plans_, cluster_layers(plans_, kMoreLayers), kMoreLayers))
      options_.layers = {kMoreLayers};
    if (plans_.operators().size() > kManyOperators)
      options_.layers = {input.devices > kOneAtOnce ? kLayersOfMost : kManyLayers};
    if (input.devices <= kVeryManyDevices) options_.plans /= 3;  // else most are refused
    options_.improvements /= 4;
  }

  Result<Outcome> run();

 private:
  using Scored = std::tuple<bool, std::int64_t, StagedPlan>;  // whether it does not fit; its time

  void cluster(int layers) { layer_ends_ = cluster_layers(plans_, layers); }
  std::int64_t best_known() const;
  double slower_by(double factor) const;
  void drop_hopeless(std::vector<StagedPlan>& plans);
  bool order_is_free() const;
  // Or say that stages have several parts.
  bool parts_are_free() const { return order_is_free() || in_.options.schedule.order == PipelineOrder::interleaved; }
  // On very many devices, to find what hides their communications takes too long.
  bool overlap_is_free() const {
    return options_.overlap && in_.options.overlap && in_.options.schedule.overlap == 0 &&
           in_.devices <= kVeryManyDevices;
  }
  // Stages wait less where gradients of weights come behind what they send.
  int first_overlap() const { return overlap_is_free() ? 1 : in_.options.schedule.overlap; }
  std::vector<StagedPlan> best_proposals(int chosen = 0);
  std::vector<StagedPlan> alternating(std::vector<StagedPlan> plans) const;
  std::vector<StagedPlan> with_parts(std::vector<StagedPlan> plans) const;
  void keep_fastest(std::vector<StagedPlan>& plans, std::size_t most) const;
  StageMoves freedom() const {
    return {layer_ends_,      micro_batches_,           order_is_free(),  overlap_is_free(),
            parts_are_free(), in_.options.stored_parts, in_.options.remat};
  }
  bool is_selective() const { return options_.selective && in_.devices > kManyDevices; }
  // Whether there is a limit to the tasks that may be simulated.
  bool is_bounded() const { return !std::isinf(tasks_left_); }
  void simulate(std::vector<StagedPlan> plans, const std::optional<StagedPlan>& from = {});
  void take(const StagedPlan& plan, Result<Outcome> outcome, std::int64_t candidates);
  bool correct_margin();
  void vary_best();
  void hide_communications();
  void split_stages_alike();
  void mix();
  void split_layers();
  void split_each_operator();
  bool far_slower(const std::vector<StagedPlan>& plans) const;
  void improve(int steps);
  bool is_patience_over() const { return tasks_since_gain_ > patience_; }
  bool slows_down(const StagedPlan& from, const StagedPlan& to, double slower);
  bool slows_down_inside(const StagedPlan& plan);
  void learn_inside(const std::vector<StagedPlan>& plans);

  const StrategyInput& in_;
  StageSearchOptions options_;
  StageProposals& proposals_;
  IntraPlans& plans_;
  const StageEstimates& estimates_;
  std::vector<int> micro_batches_;
  double margin_ = kMemoryMargin;
  double least_excess_ = std::numeric_limits<double>::infinity();
  std::size_t saving_ = 0;               // the first that proposed anything
  std::vector<int> copies_ = {0};        // that plans may have
  std::vector<std::size_t> layer_ends_;  // by layer: one past its last operator
  KnownPlans known_;
  double tasks_left_ = std::numeric_limits<double>::infinity();  // that may still be simulated
  double tasks_since_gain_ = 0, patience_ = kPatience;
  Result<Outcome> best_ = fail("no pipeline of the model can be run");
  Scored best_plan_;
  std::optional<Outcome> fastest_[3];  // of what fits: of one stage, of several, with operators in ways of their own
  OpenPlans open_;                     // of several stages
  std::set<Scored> whole_;             // of one stage without micro-batches
  StepEffects& effects_;               // of steps that were simulated
};

// Whether the options leave open in which order micro-batches run, and what is computed again.
bool StageSearch::order_is_free() const {
  Schedule rest = in_.options.schedule;
  rest.bucket = {}, rest.overlap = 0;
  return rest == Schedule();
}

// Over all numbers of micro-batches; few of those that are alike. Where none fits, other orders may, then what computes
// activations again, then what stores weights in parts. Who is selective begins in the order in which stages wait for
// one another least.
std::vector<StagedPlan> StageSearch::best_proposals(int chosen) {
  std::vector<Saving> savings = {{}, {false}};
  if (order_is_free()) savings = {{}, {true, true, false}, {true, true, true}, {false}, {false, true, true}};
  if (!in_.options.remat) std::erase_if(savings, [](const Saving& saving) { return saving.remat; });
  std::vector<Proposal> proposals;
  std::optional<Saving> found;  // the first with which something fits
  for (std::size_t i = saving_; i < savings.size(); ++i) {
    const Saving& saving = savings[i];
    if (found && (saving.fits || found->fits)) break;
    if (!found) saving_ = i;
    std::vector<std::tuple<int, int, bool>> kinds;  // micro-batches, copies, one plan in a stage
    for (int m : micro_batches_)
      for (int copies : copies_)
        for (bool plain : {false, true})
          if (chosen == 0 || copies == 0) kinds.emplace_back(m, copies, plain);
    std::vector<std::vector<Proposal>> proposed(kinds.size());
    std::atomic<bool> any = false;
    parallel_for(kinds.size(), in_.evaluator.threads(), [&](std::size_t k) {
      if (in_.evaluator.stopping()) return;
      auto timer = in_.evaluator.record().time(SearchLevel::mapping);
      auto [m, copies, plain] = kinds[k];
      ProposalRequest request{m, saving, copies, plain, margin_, first_overlap(), chosen};
      proposed[k] = proposals_.propose(layer_ends_, request);
      if (!proposed[k].empty()) any = true;
      if (chosen == 0) return;
      request.chosen = 0;
      keep_faster(proposed[k], proposals_.propose(layer_ends_, request));
    });
    if (!found && any) found = saving;
    for (std::vector<Proposal>& more : proposed)
      proposals.insert(proposals.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  std::erase_if(proposals, [&](const Proposal& p) { return !is_asked_for(p.plan, in_.options); });
  std::vector<StagedPlan> best;
  const auto most = static_cast<std::size_t>(options_.plans);
  add_fastest(best, proposals, most);
  // The DP adds up all stages; those of branches work side by side.
  std::atomic<bool> branches = false;
  parallel_for(proposals.size(), in_.evaluator.threads(), [&](std::size_t i) {
    StageEstimates::Estimate estimate = estimates_.of(proposals[i].plan);
    proposals[i].time = estimate.time;
    if (estimate.beside > 0) branches = true;
  });
  if (branches) add_fastest(best, proposals, 2 * most);
  drop_hopeless(best);
  if (is_selective() && !in_.options.pareto)
    in_.evaluator.record().left_out(LeftOut::slow_estimate, drop_slower(best, estimates_, kAlpha));
  for (StagedPlan& p : best)
    if (is_selective() && order_is_free() && !p.order && p.ends.size() > 1) p.order = PipelineOrder::zero_bubble;
  return best;
}

// The fastest of them in the order in which stages wait for one another least, which the estimates do not know; or,
// where they do not fit, in the one that holds the fewest activations: of who is selective, these alone.
std::vector<StagedPlan> StageSearch::alternating(std::vector<StagedPlan> plans) const {
  std::erase_if(plans, [&](const StagedPlan& p) {
    return is_selective() ? p.order != PipelineOrder::zero_bubble || known_.fits(p) : p.order.has_value();
  });
  keep_fastest(plans, kAlternating);
  for (StagedPlan& p : plans) p.order = known_.fits(p) ? PipelineOrder::zero_bubble : PipelineOrder::one_f_one_b;
  return plans;
}

// The fastest of them that fit with two parts on each group of devices.
std::vector<StagedPlan> StageSearch::with_parts(std::vector<StagedPlan> plans) const {
  std::erase_if(plans, [&](const StagedPlan& p) { return !known_.fits(p); });
  keep_fastest(plans, in_.devices > kManyDevices ? kInPartsOfMany : kInParts);
  return in_two_parts(plans_, plans, micro_batches_);
}

// Of pipelines that were simulated, and are not far slower than what is known.
void StageSearch::keep_fastest(std::vector<StagedPlan>& plans, std::size_t most) const {
  std::erase_if(plans, [&](const StagedPlan& p) { return p.ends.size() == 1; });
  known_.keep_fastest(plans, slower_by(kMayGain), most);
}

// The fastest plan that fits, of this search or from before it, picoseconds; 0: none.
std::int64_t StageSearch::best_known() const {
  std::int64_t best = options_.incumbent.count;
  if (best_.ok() && !std::get<0>(best_plan_) && (best == 0 || std::get<1>(best_plan_) < best))
    best = std::get<1>(best_plan_);
  return best;
}

// Picoseconds: than the best known, where slower plans are of no use.
double StageSearch::slower_by(double factor) const {
  const std::int64_t best = in_.options.pareto ? 0 : best_known();
  return best > 0 ? factor * static_cast<double>(best) : std::numeric_limits<double>::infinity();
}

void StageSearch::drop_hopeless(std::vector<StagedPlan>& plans) {
  const bool many = in_.devices > kManyDevices;
  const double most = slower_by(kHopeless), most_alone = slower_by(many ? kHopelessAloneOfMany : kHopelessAlone);
  std::erase_if(plans, [&](const StagedPlan& p) {
    bool hopeless = estimates_.of(p).time > (p.ends.size() > 1 ? most : most_alone);
    if (hopeless) in_.evaluator.record().left_out(LeftOut::slow_estimate);
    return hopeless;
  });
}

// Scores those that are new, as long as there are tasks left, but for those whose computation alone takes longer than
// the best plan. `from`: of what they are steps, if of any.
void StageSearch::simulate(std::vector<StagedPlan> plans, const std::optional<StagedPlan>& from) {
  const std::int64_t best = best_known();
  const double longest = slower_by(kAlpha);
  int begun = 0;
  std::erase_if(plans, [&](const StagedPlan& p) { return !known_.contains(p) && slows_down_inside(p); });
  std::erase_if(plans, [&](const StagedPlan& p) {
    if ((options_.several && p.ends.size() == 1) || known_.contains(p)) return true;
    if (!is_asked_for(p, in_.options)) return true;
    if (tasks_left_ <= 0 || (options_.budget > 0 && in_.evaluator.scored() + begun >= options_.budget)) {
      in_.evaluator.record().left_out(LeftOut::over_budget);
      return true;
    }
    const bool mixed = !p.whole.empty();  // of which the estimates tell nothing
    if (best > 0 && !in_.options.pareto && !mixed && estimates_.excess(p) > kFarTooLarge) {
      in_.evaluator.record().left_out(LeftOut::does_not_fit);
      known_.leave_out(p);
      return true;
    }
    if (!mixed && static_cast<double>(estimates_.of(p).least) >= longest) {
      in_.evaluator.record().left_out(LeftOut::long_path);
      known_.leave_out(p);
      return true;
    }
    known_.begin(p), ++begun;
    return false;
  });
  const std::size_t few = in_.devices > kOneAtOnce ? 1 : kAtOnce;
  std::vector<double> most(plans.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; is_bounded() && i < plans.size(); ++i) {
    bool promising =
        best == 0 || static_cast<double>(estimates_.of(plans[i]).time) <= kFarSlower * static_cast<double>(best);
    most[i] = promising ? kMostTasksOfOne : kMostTasksOfSlow;
  }
  std::int64_t candidates = in_.evaluator.scored();
  std::vector<std::optional<Result<Outcome>>> outcomes(plans.size());
  parallel_window(
      plans.size(), is_bounded() ? few : std::max<std::size_t>(1, plans.size()), in_.evaluator.threads(),
      [&](std::size_t i) { most[i] = std::min(tasks_left_, most[i]); },
      [&](std::size_t i) { outcomes[i] = build_staged(plans_, plans[i], in_, most[i]); },
      [&](std::size_t i) {
        candidates += outcomes[i]->ok();
        take(plans[i], std::move(*outcomes[i]), candidates);
        outcomes[i].reset();
      });
  learn_inside(plans);
  if (!from) return;
  for (const StagedPlan& to : plans)
    if (auto time = known_.time(to); time != KnownPlans::kNever)
      effects_.learn(*from, to, static_cast<double>(time) / static_cast<double>(known_.time(*from)));
}

// `candidates`: scored so far, with this one.
void StageSearch::take(const StagedPlan& plan, Result<Outcome> outcome, std::int64_t candidates) {
  if (outcome.ok()) {
    const Score& score = outcome->candidate.score;
    known_.set(plan, score.iteration.count, in_.evaluator.fits(score));
    const auto tasks = static_cast<double>(outcome->candidate.tasks);
    if (in_.evaluator.is_first(outcome->candidate)) tasks_left_ -= tasks;
    tasks_since_gain_ += tasks;
    // Steps from it gain little there; with gradients joined, it takes half as much memory again to simulate.
    if (in_.devices > kOneAtOnce && in_.evaluator.fits(score)) tasks_left_ = 0;
    if (!plan.stored_parts) least_excess_ = std::min(least_excess_, in_.evaluator.excess(score));
    Scored scored{!in_.evaluator.fits(score), score.iteration.count, plan};
    if (!best_.ok() || scored < best_plan_) {
      if (!best_.ok() || std::get<0>(scored) != std::get<0>(best_plan_) ||
          static_cast<double>(std::get<1>(scored)) < kGain * static_cast<double>(std::get<1>(best_plan_)))
        tasks_since_gain_ = 0;
      best_plan_ = scored;
    }
    if (plan.ends.size() > 1 && plan.whole.empty()) {
      // What makes no difference here would make none to neighbours.
      if (open_.is_new(plan, score.iteration.count) && !known_.has_twin(plan, in_.options.schedule.bucket))
        open_.add({std::get<0>(scored), static_cast<double>(score.iteration.count), plan});
    } else if (plan.ends.size() == 1 && plan.micro_batches == 1)
      whole_.insert(std::move(scored));
  }
  std::optional<Outcome>& of_kind = fastest_[splits_each_operator(plan) ? 2 : plan.ends.size() > 1];
  if (outcome.ok() && in_.evaluator.fits(outcome->candidate.score) &&
      (!of_kind || outcome->candidate.score.iteration < of_kind->candidate.score.iteration))
    of_kind = *outcome;
  take_better(best_, std::move(outcome), in_, candidates);
}

// Whether all of these are, than the best plan known; asked on many devices.
bool StageSearch::far_slower(const std::vector<StagedPlan>& plans) const {
  return is_bounded() && best_.ok() && known_.all_slower(plans, kFarSlower * static_cast<double>(best_known()));
}

// Whether the step is of a kind (StepEffects) that made every plan so far more than `slower` times slower; asked on
// many devices, of plans that fit.
bool StageSearch::slows_down(const StagedPlan& from, const StagedPlan& to, double slower) {
  if (!is_bounded() || !known_.fits(from) || effects_.least(from, to) <= slower) return false;
  in_.evaluator.record().left_out(LeftOut::given_up);
  known_.leave_out(to);
  return true;
}

// Of who is selective: whether it is tensor-parallel inside stages in a way that made every plan so far slower than
// data parallelism there, which then has to be known to fit, or is yet to be simulated.
bool StageSearch::slows_down_inside(const StagedPlan& plan) {
  if (!is_selective() || plan.ends.size() == 1 || !plan.whole.empty() || !communicates_inside(plan)) return false;
  const std::optional<StagedPlan> data = data_parallel_inside(plans_, plan);
  if (!data || (known_.contains(*data) && (known_.time(*data) == KnownPlans::kNever || !known_.fits(*data))))
    return false;
  return slows_down(*data, plan, kSlower);
}

// Of plans that are tensor-parallel inside stages: what that does to them.
void StageSearch::learn_inside(const std::vector<StagedPlan>& plans) {
  if (!is_selective()) return;
  for (const StagedPlan& p : plans) {
    if (p.ends.size() == 1 || !communicates_inside(p) || known_.time(p) == KnownPlans::kNever) continue;
    const std::optional<StagedPlan> data = data_parallel_inside(plans_, p);
    if (data && known_.time(*data) != KnownPlans::kNever && known_.fits(*data))
      effects_.learn(*data, p, static_cast<double>(known_.time(p)) / static_cast<double>(known_.time(*data)));
  }
}

// Best-first: of the best plan some neighbours, by their estimates, as long as it is not much slower than the best. One
// stage is what other searches are for.
void StageSearch::improve(int steps) {
  const std::size_t most = known_.times().size() + static_cast<std::size_t>(steps);
  tasks_since_gain_ = 0;
  auto best_time = [&] { return static_cast<double>(best_->candidate.score.iteration.count); };
  if (!best_.ok()) return;
  const double slower = is_selective() ? kFarSlowerOfSelective : kFarSlower;
  const double slowest = slower * static_cast<double>(options_.incumbent.count);
  if (options_.incumbent.count > 0 && best_time() > slowest) return;
  for (const OpenPlans::Plan* first; (first = open_.first()) && known_.times().size() < most;) {
    if (first->time > kAlpha * best_time()) return;
    OpenPlans::Plan from = open_.take();
    if (in_.evaluator.stopping() || tasks_left_ < static_cast<double>(best_->candidate.tasks)) return;
    if (is_patience_over() && !in_.options.pareto) return;
    std::vector<StagedPlan> moves = neighbours(plans_, from.plan, freedom());
    std::erase_if(moves, [&](const StagedPlan& p) {
      return known_.contains(p) || slows_down(from.plan, p, is_selective() ? kSlower : kFarSlower) ||
             (from.unfit && p.ends.size() > from.plan.ends.size() && is_interleaved(p));
    });
    sort_by_time(moves, estimates_);
    if (moves.size() > kMovesAtOnce) {  // the others later
      moves.resize(kMovesAtOnce);
      open_.put_back(from);
    }
    simulate(std::move(moves), from.plan);
  }
}

// Where what was proposed takes more memory than there is.
bool StageSearch::correct_margin() {
  if (!best_.ok() || in_.evaluator.fits(best_->candidate.score) || in_.evaluator.stopping()) return false;
  if (std::isinf(least_excess_)) return false;  // nothing that was to fit was simulated
  margin_ /= 1.02 * least_excess_;
  return true;
}

// The best plan under other schedules, which the estimates tell little of: for these there are always tasks left, but
// on very many devices, where one of them takes seconds and gigabytes.
void StageSearch::vary_best() {
  if (!best_.ok()) return;
  const StagedPlan best = std::get<2>(best_plan_);
  std::vector<StagedPlan> plans = other_schedules(best, freedom(), options_.buckets);
  const double slower = is_selective() ? kAlpha : kFarSlower;
  std::erase_if(plans, [&](const StagedPlan& p) { return known_.contains(p) || slows_down(best, p, slower); });
  if (in_.devices <= kVeryManyDevices)
    tasks_left_ = std::max(tasks_left_, static_cast<double>(plans.size() * best_->candidate.tasks));
  simulate(std::move(plans), best);
}

// Of one stage, what splits all operators alike, with gradients of weights behind communications; then the fastest in
// micro-batches, one of which is computed while another is communicated: the estimates add up both.
void StageSearch::hide_communications() {
  if (!overlap_is_free() || options_.several) return;
  std::vector<StagedPlan> plans = tensor_plans(plans_, in_.devices, in_.options.schedule.bucket);
  drop_hopeless(plans);
  sort_by_time(plans, estimates_);
  plans.resize(std::min(plans.size(), 2 * kAlternating));
  simulate(std::move(plans));
  plans.clear();
  std::size_t tried = 0;
  double least = 0;  // times what a plan took: the most that was hidden so far
  for (const auto& [unfit, time, plan] : whole_) {
    const auto took = static_cast<double>(time);
    if (tried >= 2 * kAlternating) break;
    if (took > slower_by(kMayGain) || least * took > slower_by(kAlpha)) continue;
    std::vector<StagedPlan> hidden = micro_batches_at_once(plans_, plan);
    tried += hidden.size();
    plans.insert(plans.end(), hidden.begin(), hidden.end());
    if (!is_selective()) continue;
    simulate(std::exchange(plans, {}));  // they say what to expect of others
    for (const StagedPlan& p : hidden)
      if (known_.time(p) != KnownPlans::kNever)
        least = std::min(least == 0 ? kMayGain : least, static_cast<double>(known_.time(p)) / took);
  }
  simulate(std::move(plans));
}

// Few stages, of which the same holds; of each number of them the fastest as estimated. On many devices they are wide,
// and their simulations take long.
void StageSearch::split_stages_alike() {
  if (!overlap_is_free() || !order_is_free() || !may_have_stages(in_) || in_.devices > kManyDevices) return;
  std::vector<StagedPlan> plans =
      tensor_pipelines(plans_, in_.devices, in_.options.micro_batches, in_.options.schedule.bucket);
  drop_hopeless(plans);
  keep_fastest_by_stages(plans, estimates_, kAlternating);
  simulate(std::move(plans));
}

// The fastest few of one stage and of several with lookups, the fastest also with others, that take the batch at once.
// Not on many devices, where what puts micro-batches together is lowered whole.
void StageSearch::mix() {
  if (!options_.mixed || !order_is_free() || !may_have_stages(in_) || in_.devices > kManyDevices) return;
  const double tables = time_of_dense_gradients(plans_, in_);
  for (bool several : {false, true}) {
    std::vector<StagedPlan> fastest;
    for (const auto& [plan, time] : known_.times())
      if ((plan.ends.size() > 1) == several && plan.whole.empty() && time != KnownPlans::kNever && known_.fits(plan) &&
          static_cast<double>(time) <= slower_by(kMayGain))
        fastest.push_back(plan);
    std::stable_sort(fastest.begin(), fastest.end(),
                     [&](const StagedPlan& a, const StagedPlan& b) { return known_.time(a) < known_.time(b); });
    std::size_t tried = 0;
    double last = 0;  // what that one took: as long takes what is nearly the same
    for (const StagedPlan& plan : fastest) {
      const auto time = static_cast<double>(known_.time(plan));
      if (tried == kMixed) break;
      if (time <= (1 + KnownPlans::kAsLong) * last) continue;
      ++tried, last = time;
      std::vector<MixedPipelines> mixed = mixed_pipelines(plans_, estimates_, plan, freedom(), in_.devices);
      if (tables < kTablesCount * time) mixed[0].clear();
      if (tried > 1) mixed.resize(1);  // lookups
      for (const MixedPipelines& groups : mixed)
        for (const std::vector<StagedPlan>& group : groups) {
          simulate(group);
          if (std::none_of(group.begin(), group.end(),
                           [&](const StagedPlan& p) { return static_cast<double>(known_.time(p)) <= kAlpha * last; }))
            break;
        }
    }
  }
}

// After all others, which then find what they would find without.
void StageSearch::split_each_operator() {
  const int kinds = add_chosen_shardings(plans_, estimates_.costs(), in_, proposals_.meshes(), micro_batches_);
  patience_ /= kLessPatience, tasks_since_gain_ = 0;
  for (int layers : options_.layers) {
    cluster(layers);
    for (int kind = 1; kind <= kinds && !is_patience_over(); ++kind) {
      std::vector<StagedPlan> proposals = best_proposals(kind);
      simulate(proposals);
      if (order_is_free()) simulate(alternating(std::move(proposals)));
    }
  }
  vary_best();
  improve(options_.improvements / 4);
  vary_best();
}

void StageSearch::split_layers() {
  std::vector<std::vector<StagedPlan>> even;
  if (options_.even && may_have_stages(in_))
    even = even_pipelines(plans_, in_.devices, in_.options.schedule.bucket, first_overlap());
  for (int layers : options_.layers) {
    cluster(layers);
    std::vector<StagedPlan> proposals = best_proposals();
    std::vector<StagedPlan> data = data_parallel_inside(plans_, proposals);
    if (!is_selective()) simulate(proposals);  // else all at once: few are left, and each takes long
    proposals.insert(proposals.end(), std::make_move_iterator(data.begin()), std::make_move_iterator(data.end()));
    simulate(proposals);
    if (order_is_free()) simulate(alternating(proposals));
    if (parts_are_free()) simulate(with_parts(std::move(proposals)));
    for (int c = 0; c < kCorrections && correct_margin(); ++c) simulate(best_proposals());
  }
  hide_communications();
  split_stages_alike();
  vary_best();
  // From their own start and from even stages or other schedules, half of the steps each, with patience of their own.
  // Who is selective walks a second time only if the best plan is another one by then.
  const int steps = options_.improvements;
  improve(steps / 2);
  const Scored before = best_plan_;
  int slow = 0;  // numbers of stages in a row
  for (std::vector<StagedPlan>& plans : even) {
    std::vector<StagedPlan> tried = plans;
    drop_hopeless(plans);
    simulate(std::move(plans));
    slow = far_slower(tried) ? slow + 1 : 0;
    if (slow == 2) break;  // more stages even more so
  }
  vary_best();
  if (!is_selective() || before != best_plan_) improve(steps - steps / 2);
  if (!best_.ok() || !overlap_is_free() || in_.devices > kVeryManyDevices) return;
  std::vector<StagedPlan> hidden = two_at_once(known_.times(), best_known(), freedom());  // last: no walk changes
  // Who is selective knows by then whether two micro-batches at once pay.
  std::erase_if(hidden, [&](const StagedPlan& p) {
    StagedPlan one = p;
    one.overlap = 1;
    return is_selective() && slows_down(one, p, kSlower);
  });
  tasks_left_ = std::max(tasks_left_, static_cast<double>(hidden.size() * best_->candidate.tasks));
  simulate(std::move(hidden));
}

Result<Outcome> StageSearch::run() {
  if (plans_.operators().empty()) return fail("the model has no operators");
  micro_batches_ = micro_batch_counts(plans_, in_, *std::max_element(options_.layers.begin(), options_.layers.end()));
  plans_.prepare(stage_widths(in_));
  for (const Submesh& mesh : proposals_.meshes())
    for (const IntraPlan& p : plans_.of_width(mesh.width))
      if (std::find(copies_.begin(), copies_.end(), copies_of(p)) == copies_.end()) copies_.push_back(copies_of(p));
  if (options_.by_layers) split_layers();
  if (options_.each_operator) split_each_operator();
  mix();
  proposals_.taken() = open_.taken();
  if (best_.ok()) {
    best_->stopped_because += fmt::format(": the fastest of {}", known_.times().size());
    for (std::optional<Outcome>& plan : fastest_)
      if (plan && plan->candidate.score.iteration != best_->candidate.score.iteration)
        best_->rivals.push_back(std::move(*plan));
  }
  return std::move(best_);
}

}  // namespace

Result<Outcome> search_stages(const StrategyInput& input, const StageSearchOptions& options,
                              StageProposals& proposals) {
  return StageSearch(input, options, proposals).run();
}

Result<Outcome> search_stages(const StrategyInput& input, const StageSearchOptions& options) {
  IntraPlans plans(input.model, input);
  StageProposals proposals(input, plans);
  return search_stages(input, options, proposals);
}

}  // namespace unity
