#include "gui/session/replay.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "core/base/text.h"
#include "core/models/models.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/axis_classes.h"
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

}  // namespace

void replay(const Plan& plan, std::shared_ptr<const Topology> topology, const std::vector<StepRange>& ranges,
            const std::function<void(std::size_t, const ReplayedSteps&)>& done, const std::atomic<bool>* stop) {
  Predictor predictor;
  Pcg pcg = build_model(plan.model);
  std::string why;  // there is no time
  auto time_of = [&](const Pcg& graph) {
    auto now = std::make_shared<Plan>(plan);
    now->pcg = graph;
    now->mappings = natural_mappings(graph);
    now->schedule = {};
    Document document;
    document.plan = std::move(now);
    document.topology = topology;
    PlanPrediction prediction = predictor.quick(document);
    why = prediction.error;
    return why.empty() ? prediction.iteration : Picoseconds{};
  };
  Picoseconds before = time_of(pcg);
  for (std::size_t r = 0; r < ranges.size() && !(stop && *stop); ++r) {
    ReplayedSteps steps{before, before, 0, {}};
    std::span<const DerivationStep> rest(plan.derivation);
    rest = rest.subspan(static_cast<std::size_t>(ranges[r].first), static_cast<std::size_t>(ranges[r].count));
    while (!rest.empty() && !(stop && *stop)) {
      std::size_t count = 1;
      Result<Pcg> next = apply_move(pcg, rest, count);
      if (next.ok()) {
        pcg = std::move(*next);
        steps.applied += static_cast<int>(count);
      } else if (steps.note.empty()) {
        steps.note = next.error().message;
      }
      rest = rest.subspan(count);
    }
    if (steps.applied > 0) before = steps.after = time_of(pcg);
    if (steps.note.empty()) steps.note = why;
    done(r, steps);
  }
}

}  // namespace unity::gui
