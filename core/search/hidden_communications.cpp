#include "core/search/hidden_communications.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/parallel.h"
#include "core/plan/row_updates.h"
#include "core/search/data_parallel.h"
#include "core/search/pipeline_stages.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

constexpr double kMayGain = 1.5;  // a plan this much slower than the fastest may be faster with what it sends hidden
constexpr int kMostAtOnce = 4;    // micro-batches
constexpr std::size_t kMostPlans = 8, kMostPlansOfMany = 2;
constexpr double kMostTasksOfMany = 3e5;  // on many devices; one of more takes as long as all others

// Of a graph in micro-batches: whether lookups have none.
bool takes_some_whole(const Pcg& pcg) {
  const std::vector<bool> tables = lookups(pcg);
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (NodeId id(static_cast<std::int64_t>(i)); tables[i] && micro_count(node_sharding(pcg, id)) == 1) return true;
  return false;
}

// Where lookups come in `micro_batches`, the least that gradients of all rows of its tables take a device, of which all
// but the first are added to those before: the longest of all devices. None, where the batch as a whole has such, too.
Picoseconds least_with_gradients_of_tables(const Candidate& plan, int micro_batches, const StrategyInput& input) {
  const CostModel& cost = input.evaluator.cost();
  const std::vector<bool> tables = lookups(plan.pcg);
  if (!updates_by_rows(input.options.optimizer) || std::find(tables.begin(), tables.end(), true) == tables.end())
    return {};
  std::vector<double> bytes(cost.topology().device_count(), 0);
  for (std::size_t i = 0; i < plan.pcg.size(); ++i) {
    if (!tables[i]) continue;
    const NodeId id(static_cast<std::int64_t>(i));
    double table = 0;
    for (ValueRef operand : plan.pcg[id].inputs) {
      const ParallelShape& shape = plan.pcg.shape(operand);
      if (plan.pcg[source_of(plan.pcg, operand).node].op->name() == "weight")
        table = static_cast<double>(shape.shape().bytes()) / shape.shards();
    }
    for (DeviceId d : plan.mappings[i].devices(node_grid(plan.pcg, id))) bytes[d.index()] += table;
  }
  Picoseconds longest;
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    Task task;
    task.bytes = (2 * micro_batches - 1) * bytes[d];
    longest = std::max(longest, cost.task_time(task, nullptr, DeviceId(static_cast<std::int64_t>(d))));
  }
  return longest;
}

bool has_micro_batches(const Pcg& pcg) {
  return std::any_of(pcg.nodes().begin(), pcg.nodes().end(), [](const Node& n) { return n.op->name() == "pipeline"; });
}

// Of a plan of one stage; 1: none, or there are several.
int micro_batches_of(const Candidate& c) {
  if (!has_micro_batches(c.pcg) || runs_in_stages(c.pcg, c.mappings)) return 1;
  int most = 1;
  for (std::size_t i = 0; i < c.pcg.size(); ++i)
    if (NodeId id(static_cast<std::int64_t>(i)); c.pcg[id].is_compute())
      most = std::max(most, micro_count(node_sharding(c.pcg, id)));
  return most;
}

// Leaves and operators where they are in a graph that differs in how values are laid out alone.
std::vector<MachineMapping> of_same_operators(const Pcg& pcg, const std::vector<MachineMapping>& mappings,
                                              const Pcg& other) {
  std::vector<MachineMapping> result(other.size());
  std::size_t i = 0;
  for (std::size_t k = 0; k < other.size(); ++k) {
    if (other.nodes()[k].is_parallelization()) continue;
    while (pcg.nodes()[i].is_parallelization()) ++i;
    result[k] = mappings[i++];
  }
  return result;
}

// What is done to a plan. `lookups_whole`: lookups in tables take the batch at once, and operators stay where they are.
// `there`: it has these micro-batches already.
struct Choice {
  const Outcome* plan;
  int micro_batches = 1;
  bool lookups_whole = false;
  bool there = false;
};

Result<Outcome> apply(const Choice& choice, const StrategyInput& input) {
  const Outcome& plan = *choice.plan;
  const int micro_batches = choice.micro_batches;
  Schedule schedule = plan.candidate.schedule;
  schedule.overlap = micro_batches;
  std::vector<DerivationStep> steps = plan.derivation;
  const double most_tasks = input.devices > kManyDevices ? kMostTasksOfMany : std::numeric_limits<double>::infinity();
  if (micro_batches == 1 || choice.there) {
    Candidate same =
        UNITY_TRY(input.evaluator.evaluate_stages(plan.candidate.pcg, plan.candidate.mappings, schedule, most_tasks));
    return Outcome{std::move(same), std::move(steps), plan.stopped_because, {}};
  }
  if (choice.lookups_whole) {
    Pcg pcg = UNITY_TRY(with_micro_batches(plan.candidate.pcg, micro_batches, lookups(plan.candidate.pcg)));
    steps.push_back({"micro_batches", "all but lookups in tables", micro_batches, 0});
    auto mappings = of_same_operators(plan.candidate.pcg, plan.candidate.mappings, pcg);
    Candidate candidate =
        UNITY_TRY(input.evaluator.evaluate_stages(std::move(pcg), std::move(mappings), schedule, most_tasks));
    return Outcome{std::move(candidate), std::move(steps), plan.stopped_because, {}};
  }
  Pcg pcg = UNITY_TRY(with_micro_batches(plan.candidate.pcg, micro_batches));
  steps.push_back({"micro_batches", "the whole model", micro_batches, 0});
  Candidate candidate = UNITY_TRY(input.evaluator.evaluate_stages(std::move(pcg), schedule, most_tasks));
  return Outcome{std::move(candidate), std::move(steps), plan.stopped_because, {}};
}

}  // namespace

bool passes_communicate(const Pcg& pcg) {
  std::vector<bool> computed(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    computed[i] = n.is_compute();
    if (!n.is_parallelization() || n.op->name() == "pipeline") continue;
    computed[i] = computed[n.inputs[0].node.index()];
  }
  for (const Node& n : pcg.nodes())
    if (n.is_compute())
      for (ValueRef in : n.inputs)
        if (pcg[in.node].is_parallelization() && pcg[in.node].op->name() != "pipeline" && computed[in.node.index()])
          return true;
  return false;
}

std::vector<Outcome> hide_communications(const std::vector<Outcome>& plans, const StrategyInput& input,
                                         std::set<Hash>& seen) {
  std::vector<Outcome> found;
  if (!input.options.overlap || input.options.schedule.overlap > 0 || input.devices > kVeryManyDevices) return found;
  auto time = [](const Outcome& o) { return static_cast<double>(o.candidate.score.iteration.count); };
  std::vector<const Outcome*> from;
  for (const Outcome& o : plans)
    if (input.evaluator.fits(o.candidate.score)) from.push_back(&o);
  if (from.empty()) return found;
  std::stable_sort(from.begin(), from.end(), [&](const Outcome* a, const Outcome* b) { return time(*a) < time(*b); });
  const double fastest = time(*from[0]);
  const std::size_t most = input.devices > kManyDevices ? kMostPlansOfMany : kMostPlans;
  std::vector<const Outcome*> fast;
  std::swap(fast, from);
  for (const Outcome* o : fast) {
    if (time(*o) > kMayGain * fastest || from.size() == most) break;
    if (o->candidate.schedule.overlap <= 1 && passes_communicate(o->candidate.pcg) &&
        seen.insert(canonical_hash(o->candidate.pcg)).second)
      from.push_back(o);
  }

  // The best of each plan so far, with how many micro-batches.
  std::vector<std::optional<Outcome>> best(from.size());
  auto try_all = [&](const std::vector<Choice>& choices) {
    std::vector<std::optional<Outcome>> scored(choices.size());
    auto left = std::max<std::int64_t>(0, input.options.budget - input.evaluator.scored());
    std::size_t count = std::min(choices.size(), static_cast<std::size_t>(left));
    // First what takes longest: micro-batches are mapped and lowered anew.
    std::vector<int> ranks;
    for (std::size_t i = 0; i < count; ++i) ranks.push_back(-choices[i].micro_batches);
    parallel_by_rank(ranks, input.evaluator.threads(), [&](std::size_t i) {
      auto plan = apply(choices[i], input);
      if (plan.ok()) scored[i] = std::move(*plan);
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (!scored[i]) continue;
      input.evaluator.found(scored[i]->candidate.score);
      std::optional<Outcome>& than =
          best[static_cast<std::size_t>(std::find(from.begin(), from.end(), choices[i].plan) - from.begin())];
      if (input.evaluator.fits(scored[i]->candidate.score) && (!than || time(*scored[i]) < time(*than)))
        than = *scored[i];
      found.push_back(std::move(*scored[i]));
    }
  };
  const int asked = input.options.micro_batches;
  std::vector<Choice> first, more;
  for (const Outcome* o : from) {
    if (o->candidate.schedule.overlap == 0) first.push_back({o, 1});
    if (const int some = micro_batches_of(o->candidate);
        some > 1 && some <= kMostAtOnce && o->candidate.schedule.overlap <= 1)
      first.push_back({o, some, false, true});
    if (has_micro_batches(o->candidate.pcg) || asked == 1 || asked > kMostAtOnce) continue;
    const int some = asked > 0 ? asked : 2;
    const auto least = static_cast<double>(least_with_gradients_of_tables(o->candidate, some, input).count);
    const bool too_slow = !input.options.pareto && least >= fastest;
    if (too_slow) input.evaluator.record().left_out(LeftOut::much_work);
    if (!too_slow && !shared_places(o->candidate.mappings)) first.push_back({o, some});
    const std::vector<bool> tables = lookups(o->candidate.pcg);
    if (std::find(tables.begin(), tables.end(), true) != tables.end()) first.push_back({o, some, true});
  }
  try_all(first);
  for (std::size_t i = 0; i < from.size(); ++i)
    if (asked == 0 && best[i] && best[i]->candidate.schedule.overlap == 2 && time(*best[i]) < time(*from[i]))
      for (int micro_batches : {3, 4})
        more.push_back({from[i], micro_batches, takes_some_whole(best[i]->candidate.pcg)});
  try_all(more);
  return found;
}

}  // namespace unity
