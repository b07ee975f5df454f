#include "gui/session/replay.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/models/models.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/axis_classes.h"
#include "core/search/explain.h"
#include "core/search/mapping_search.h"
#include "gui/session/rewriting.h"

namespace unity::gui {
namespace {

bool is_shard(const std::string& rule) { return rule.starts_with("shard_") || rule.starts_with("spread_"); }

// Where the rule's root has the label.
Result<Pcg> apply_rule(const Pcg& pcg, const DerivationStep& step) {
  const Rule* rule = find_rule(step.rule);
  if (!rule || step.where.find(' ') != std::string::npos)
    return fail("{} is no rule that is applied at an operator", step.rule);
  Parameters parameters;
  if (step.degree > 0) parameters["d"] = step.degree;
  std::string why = fmt::format("{} has no match at {}", step.rule, step.where);
  for (const Match& match : find_matches(pcg, *rule)) {
    if (pcg[match.root()].name != step.where) continue;
    Result<Pcg> next = apply(pcg, *rule, match, parameters);
    if (next.ok()) return next;
    why = next.error().message;
  }
  return Error{why};
}

// Shards operators along an axis each, all at once: what lies between them moves no data then. `count` of the steps:
// until an operator comes again.
Result<Pcg> apply_shards(const Pcg& pcg, std::span<const DerivationStep> steps, std::size_t& count) {
  std::map<std::string, std::vector<NodeId>> by_label;
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].is_compute()) by_label[pcg.nodes()[i].name].emplace_back(static_cast<std::int64_t>(i));
  AxisClass all{steps.front().rule, {}, {}};
  std::set<NodeId> taken;  // labels may occur several times
  count = 0;
  for (const DerivationStep& step : steps) {
    AxisClassMember member;
    for (NodeId id : by_label[step.where])
      for (int axis = 0; axis < static_cast<int>(pcg[id].table->axes.size()); ++axis)
        if (!member.node.valid() && !taken.contains(id) &&
            (step.rule == shard_rule_name(pcg[id], axis) || step.rule == spread_rule_name(pcg[id], axis)))
          member = {id, axis};
    if (!member.node.valid() && count > 0) break;
    ++count;
    if (!member.node.valid()) return fail("{}: there is no {}", step.rule, step.where);
    taken.insert(member.node);
    all.members.push_back(member);
  }
  std::sort(all.members.begin(), all.members.end());
  Result<Pcg> even = shard_class(pcg, all, steps.front().degree);
  return even.ok() ? even : shard_class(pcg, all, steps.front().degree, nullptr, true);
}

// The first move of the steps, with how many of them it is: those that shard different operators the same way, or copy
// all of them, or a rule.
Result<Pcg> apply_move(const Pcg& pcg, std::span<const DerivationStep> steps, std::size_t& count) {
  bool shards = is_shard(steps[0].rule), copies = steps[0].rule.starts_with("replicate_");
  count = 1;
  while ((shards || copies) && count < steps.size() && steps[count].degree == steps[0].degree &&
         (shards ? is_shard(steps[count].rule) : steps[count].rule.starts_with("replicate_")))
    ++count;
  if (shards) return apply_shards(pcg, steps.first(count), count);
  if (copies) return apply_replicate_everywhere(pcg, steps[0].degree);
  return apply_rule(pcg, steps[0]);
}

// `count` times `period` ranges, from `first` on, that do the same in other layers.
struct Cycles {
  std::size_t first = 0, period = 0, count = 0;
};

Hash kind_of(const Plan& plan, const StepRange& range) {
  Hash hash = static_cast<Hash>(range.count);
  for (int i = range.first; i < range.first + range.count; ++i) {
    const DerivationStep& step = plan.derivation[static_cast<std::size_t>(i)];
    hash = combine(hash, hash_text(fmt::format("{} {} {}", step.rule, step.degree, without_indices(step.where))));
  }
  return hash;
}

std::vector<Cycles> find_cycles(const Plan& plan, const std::vector<StepRange>& ranges) {
  constexpr std::size_t kLongest = 12, kFewest = 3;
  std::vector<Hash> kinds;
  for (const StepRange& range : ranges) kinds.push_back(kind_of(plan, range));
  std::vector<Cycles> found;
  for (std::size_t first = 0; first < kinds.size();) {
    Cycles best{first, 1, 1};
    for (std::size_t period = 1; period <= kLongest; ++period) {
      std::size_t end = first + period;
      while (end < kinds.size() && kinds[end] == kinds[end - period]) ++end;
      Cycles cycles{first, period, (end - first) / period};
      if (cycles.count >= kFewest && cycles.period * cycles.count > best.period * best.count) best = cycles;
    }
    if (best.count > 1) found.push_back(best);
    first += best.period * best.count;
  }
  return found;
}

// The graphs between ranges, and what an iteration of each takes.
class Replay {
 public:
  Replay(const Plan& plan, std::shared_ptr<const Topology> topology, const std::vector<StepRange>& ranges,
         const ReplayWatch& watch)
      : plan_(plan),
        topology_(std::move(topology)),
        ranges_(ranges),
        watch_(watch),
        cycles_(find_cycles(plan, ranges)),
        states_(ranges.size() + 1),
        lines_(ranges.size()),
        told_(ranges.size(), false) {}

  void run() {
    apply_all();
    std::vector<std::size_t> order;
    for (std::size_t s = 0; s < states_.size(); ++s)
      if (states_[s].graph && s > 0 && s < last_) order.push_back(s);
    if (last_ > 0) order.insert(order.begin(), last_);
    order.insert(order.begin(), 0);
    for (std::size_t i = 0; i < order.size() && !stopped(); ++i) {
      progress(kApplying + (1 - kApplying) * static_cast<double>(i) / static_cast<double>(order.size()), "simulating");
      simulate(states_[order[i]]);
      tell();
    }
  }

 private:
  static constexpr double kApplying = 0.3;  // of the time, about

  struct State {
    std::shared_ptr<const Pcg> graph;  // null: it is not simulated
    std::size_t same_as = 0;           // an earlier one that it equals, or itself
    bool known = false, about = false;
    Picoseconds time;
    std::string why;  // there is no time
  };

  bool stopped() const { return watch_.stop && *watch_.stop; }
  void progress(double fraction, const std::string& what) const {
    if (watch_.progress) watch_.progress(fraction, what);
  }

  // Those between the first and the last of many that are alike are not.
  bool is_simulated(std::size_t state) const {
    return std::none_of(cycles_.begin(), cycles_.end(), [&](const Cycles& c) {
      return state > c.first + c.period && state < c.first + c.period * (c.count - 1);
    });
  }

  void apply_all() {
    auto graph = std::make_shared<const Pcg>(build_model(plan_.model));
    states_[0].graph = graph;
    for (std::size_t r = 0; r < ranges_.size() && !stopped(); ++r) {
      progress(kApplying * static_cast<double>(r) / static_cast<double>(ranges_.size()), "applying the steps");
      std::span<const DerivationStep> rest(plan_.derivation);
      rest = rest.subspan(static_cast<std::size_t>(ranges_[r].first), static_cast<std::size_t>(ranges_[r].count));
      while (!rest.empty() && !stopped()) {
        std::size_t count = 1;
        Result<Pcg> next = apply_move(*graph, rest, count);
        if (next.ok()) {
          graph = std::make_shared<const Pcg>(std::move(*next));
          lines_[r].applied += static_cast<int>(count);
        } else if (lines_[r].note.empty()) {
          lines_[r].note = next.error().message;
        }
        rest = rest.subspan(count);
      }
      State& state = states_[r + 1];
      state.same_as = lines_[r].applied == 0 ? states_[r].same_as : r + 1;
      if (state.same_as != r + 1) continue;
      last_ = r + 1;
      if (is_simulated(r + 1)) state.graph = graph;
    }
    states_[last_].graph = graph;
  }

  void simulate(State& state) {
    auto now = std::make_shared<Plan>(plan_);
    now->pcg = *state.graph;
    now->mappings = natural_mappings(now->pcg);
    now->schedule = {};
    Document document;
    document.plan = std::move(now);
    document.topology = topology_;
    PlanPrediction prediction = predictor_.quick(document);
    state.known = true;
    state.why = prediction.error;
    if (state.why.empty()) state.time = prediction.iteration;
    state.graph.reset();
  }

  const State& state(std::size_t s) const { return states_[states_[s].same_as]; }

  void tell() {
    for (const Cycles& c : cycles_)
      for (std::size_t j = 0; j < c.period; ++j) {
        const State &first = state(c.first + j), &last = state(c.first + c.period * (c.count - 1) + j);
        if (!first.known || !last.known || !first.why.empty() || !last.why.empty()) continue;
        for (std::size_t n = 1; n + 1 < c.count; ++n) {
          State& between = states_[states_[c.first + c.period * n + j].same_as];
          if (between.known) continue;
          double part = static_cast<double>(n) / static_cast<double>(c.count - 1);
          between.time.count = first.time.count + static_cast<std::int64_t>(
                                                      part * static_cast<double>(last.time.count - first.time.count));
          between.known = between.about = true;
        }
      }
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      const State &before = state(r), &after = state(r + 1);
      if (told_[r] || !before.known || !after.known) continue;
      told_[r] = true;
      lines_[r].before = before.time, lines_[r].after = after.time;
      lines_[r].about = before.about || after.about;
      if (lines_[r].note.empty()) lines_[r].note = after.why;
      if (watch_.known) watch_.known(r, lines_[r]);
    }
  }

  const Plan& plan_;
  std::shared_ptr<const Topology> topology_;
  const std::vector<StepRange>& ranges_;
  const ReplayWatch& watch_;
  Predictor predictor_;
  std::vector<Cycles> cycles_;
  std::vector<State> states_;  // before the first range, after each
  std::size_t last_ = 0;       // state that differs from those before it
  std::vector<ReplayedSteps> lines_;
  std::vector<bool> told_;
};

}  // namespace

void replay(const Plan& plan, std::shared_ptr<const Topology> topology, const std::vector<StepRange>& ranges,
            const ReplayWatch& watch) {
  Replay(plan, std::move(topology), ranges, watch).run();
}

}  // namespace unity::gui
