#include "core/search/staged_plan.h"

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

}  // namespace

bool is_plain(const StagedPlan& plan) {
  for (std::size_t s = 0, k = 0; s < plan.ends.size(); ++s)
    for (std::size_t begin = k; k < plan.ends[s]; ++k)
      if (plan.plans[k] != plan.plans[begin]) return false;
  return true;
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
  return fmt::format("{} stage{} ({}){}, {} micro-batches{}{}{}", plan.ends.size(), plan.ends.size() == 1 ? "" : "s",
                     stages, plan.stored_parts ? ", weights stored in parts" : "", plan.micro_batches,
                     plan.order ? fmt::format(", {}", to_string(*plan.order)) : "",
                     plan.remat ? ", blocks computed again" : "",
                     plan.overlap > 1 ? fmt::format(", {} at once", plan.overlap) : "");
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
    pcg =
        UNITY_TRY(record.timed(SearchLevel::substitution, [&] { return with_micro_batches(pcg, plan.micro_batches); }));
    steps.push_back({"micro_batches", "the whole model", plan.micro_batches, 0});
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
