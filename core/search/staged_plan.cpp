#include "core/search/staged_plan.h"

#include <algorithm>
#include <map>

#include "core/rewrite/derive.h"
#include "core/rewrite/relayout.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

Result<Pcg> lay_out(const IntraPlans& plans, const StagedPlan& plan) {
  const Pcg& model = plans.model();
  Layouts layouts(model.size());
  for (std::size_t k = 0; k < plans.operators().size(); ++k) {
    NodeId id = plans.operators()[k];
    OperandShapes whole;
    for (ValueRef v : model[id].inputs) whole.push_back(model.shape(v));
    // Where neighbours of other plans do not make the summands that an operator could pass on, it is computed whole.
    layouts[id.index()] = {plans.operands(plan.plans[k], k), std::move(whole)};
  }
  return UNITY_TRY(relayout(model, layouts)).pcg;
}

std::vector<DerivationStep> steps_of(const Pcg& pcg) {
  std::vector<DerivationStep> steps;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (!n.is_compute()) continue;
    Sharding sharding = node_sharding(pcg, NodeId(static_cast<std::int64_t>(i)));
    for (std::size_t a = 0; a < sharding.degrees.size(); ++a)
      if (sharding.degrees[a] > 1)
        steps.push_back({shard_rule_name(n, static_cast<int>(a)), n.name, sharding.degrees[a], 0});
  }
  return steps;
}

// By node: the stage of its operator; leaves have that of their first user.
std::vector<int> stages_of_nodes(const Pcg& pcg, const StagedPlan& plan) {
  std::vector<int> stages(pcg.size(), -1);
  std::size_t k = 0;
  int stage = 0;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (!n.is_compute()) continue;
    while (k >= plan.ends[static_cast<std::size_t>(stage)]) ++stage;
    ++k;
    stages[i] = stage;
    for (ValueRef v : n.inputs) {
      while (pcg[v.node].is_parallelization()) v = pcg[v.node].inputs[0];
      if (pcg[v.node].is_leaf() && stages[v.node.index()] < 0) stages[v.node.index()] = stage;
    }
  }
  return stages;
}

// By node; empty where none is.
std::vector<bool> nodes_that_are_whole(const Pcg& pcg, const StagedPlan& plan) {
  std::vector<bool> whole;
  if (plan.whole.empty()) return whole;
  std::size_t k = 0;
  for (const Node& n : pcg.nodes()) whole.push_back(n.is_compute() && plan.whole[k++]);
  return whole;
}

}  // namespace

std::size_t groups_of(const StagedPlan& plan) {
  auto again = std::find(plan.devices.begin() + 1, plan.devices.end(), plan.devices[0]);
  return static_cast<std::size_t>(again - plan.devices.begin());
}

bool goes_around(const StagedPlan& plan) {
  const int at_once = std::max(1, plan.overlap), passes = (plan.micro_batches + at_once - 1) / at_once;
  return !is_interleaved(plan) || passes % static_cast<int>(groups_of(plan)) == 0;
}

std::optional<StagedPlan> in_parts(const IntraPlans& plans, const StagedPlan& plan, int parts) {
  const std::size_t groups = groups_of(plan), stages = groups * static_cast<std::size_t>(parts);
  if (groups < 2 || stages > plans.operators().size()) return std::nullopt;
  std::vector<double> flops(groups, 0);
  std::vector<std::map<IntraPlan, double>> inside(groups);  // FLOPs that follow a plan
  for (std::size_t s = 0, k = 0; s < plan.ends.size(); ++s)
    for (; k < plan.ends[s]; ++k) {
      flops[s % groups] += plans.flops_of(k, k + 1);
      inside[s % groups][plan.plans[k]] += plans.flops_of(k, k + 1);
    }
  std::vector<double> shares;
  for (std::size_t s = 0; s < stages; ++s) shares.push_back(flops[s % groups]);
  std::vector<int> stage_of = balanced_stages(plans.model(), shares);
  StagedPlan next = plan;
  next.ends.assign(stages, 0);
  next.devices.clear();
  for (std::size_t s = 0; s < stages; ++s) next.devices.push_back(plan.devices[s % groups]);
  for (std::size_t k = 0; k < plans.operators().size(); ++k) {
    auto s = static_cast<std::size_t>(stage_of[plans.operators()[k].index()]);
    next.ends[s] = k + 1;
    const auto& choices = inside[s % groups];
    next.plans[k] = std::max_element(choices.begin(), choices.end(), [](const auto& a, const auto& b) {
                      return a.second < b.second;
                    })->first;
  }
  next.order = parts > 1 ? std::optional(PipelineOrder::interleaved) : std::nullopt;
  return next;
}

bool is_plain(const StagedPlan& plan) {
  for (std::size_t s = 0, k = 0; s < plan.ends.size(); ++s)
    for (std::size_t begin = k; k < plan.ends[s]; ++k)
      if (plan.plans[k] != plan.plans[begin]) return false;
  return true;
}

bool splits_each_operator(const StagedPlan& plan) {
  return std::any_of(plan.plans.begin(), plan.plans.end(), [](const IntraPlan& p) { return p.chosen > 0; });
}

StagedPlan without_schedule(StagedPlan plan) {
  plan.stored_parts = plan.remat = false, plan.order.reset();
  plan.bucket = {}, plan.overlap = 0;
  return plan;
}

std::string to_string(const StagedPlan& plan) {
  std::string stages;
  std::size_t begin = 0;
  for (std::size_t s = 0; s < plan.ends.size(); ++s) {
    std::vector<std::string> inside;
    for (std::size_t k = begin; k < plan.ends[s]; ++k)
      if (std::string text = to_string(plan.plans[k]); inside.empty() || inside.back() != text) inside.push_back(text);
    stages += fmt::format("{}{}", s > 0 ? "; " : "", fmt::join(inside, ", "));
    begin = plan.ends[s];
  }
  const std::size_t groups = groups_of(plan), parts = plan.ends.size() / groups;
  const auto whole = std::count(plan.whole.begin(), plan.whole.end(), true);
  return fmt::format("{} stage{}{} ({}){}, {} micro-batches{}{}{}{}", groups, groups == 1 ? "" : "s",
                     parts > 1 ? fmt::format(" with {} parts each", parts) : "", stages,
                     plan.stored_parts ? ", weights stored in parts" : "", plan.micro_batches,
                     plan.order ? fmt::format(", {}", to_string(*plan.order)) : "",
                     plan.remat ? ", blocks computed again" : "",
                     plan.overlap > 1 ? fmt::format(", {} at once", plan.overlap) : "",
                     whole > 0 ? fmt::format(", {} operators without", whole) : "");
}

Result<Outcome> build_staged(const IntraPlans& plans, const StagedPlan& plan, const StrategyInput& input,
                             double most_tasks) {
  SearchRecorder& record = input.evaluator.record();
  Pcg pcg = UNITY_TRY(record.timed(SearchLevel::substitution, [&] { return lay_out(plans, plan); }));
  std::vector<DerivationStep> steps = steps_of(pcg);
  if (plan.stored_parts) {
    pcg = UNITY_TRY(with_stored_parts(pcg));
    steps.push_back({"gather_stored_parts", "all replicated weights", 0, 0});
  }
  if (plan.micro_batches > 1) {
    pcg = UNITY_TRY(record.timed(SearchLevel::substitution, [&] {
      return with_micro_batches(pcg, plan.micro_batches, nodes_that_are_whole(pcg, plan));
    }));
    steps.push_back(
        {"micro_batches", plan.whole.empty() ? "the whole model" : "a part of the model", plan.micro_batches, 0});
  }
  Schedule schedule = input.options.schedule;
  if (plan.order) schedule.order = *plan.order;
  if (plan.remat) schedule.remat = {"blocks"};
  schedule.bucket = plan.bucket;
  schedule.overlap = plan.overlap;
  if (plan.ends.size() == 1) {
    Candidate candidate = UNITY_TRY(input.evaluator.evaluate_stages(std::move(pcg), schedule, most_tasks));
    return Outcome{std::move(candidate), std::move(steps), to_string(plan), {}};
  }
  auto mappings = UNITY_TRY(
      record.timed(SearchLevel::mapping, [&] { return map_stages(pcg, stages_of_nodes(pcg, plan), plan.devices); }));
  Candidate candidate =
      UNITY_TRY(input.evaluator.evaluate_stages(std::move(pcg), std::move(mappings), schedule, most_tasks));
  return Outcome{std::move(candidate), std::move(steps), to_string(plan), {}};
}

}  // namespace unity
