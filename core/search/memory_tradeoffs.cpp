#include "core/search/memory_tradeoffs.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/search/data_parallel.h"
#include "core/search/pareto.h"
#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

struct Variant {
  bool stored_parts = false;
  int micro_batches = 1;
  Schedule schedule;
};

// Of a plan with this schedule, without itself. `stages`: of ZeRO, for weights that are stored in parts.
std::vector<Variant> variants(const Schedule& schedule, Tradeoffs which, const std::vector<int>& stages,
                              const SearchOptions& options) {
  if (which == Tradeoffs::stored_parts) return {{true, 1, schedule}};
  std::vector<std::vector<std::string>> remats = {schedule.remat};
  if (remats[0].empty()) remats.insert(remats.end(), {{"blocks"}, {"all"}});
  std::vector<Offload> offloads = {schedule.offload};
  if (options.offload && offloads[0] == Offload::none)
    offloads.insert(offloads.end(), {Offload::optimizer, Offload::activations_and_optimizer});
  std::vector<int> counts = {1, 2, 4, 8};
  if (options.micro_batches > 0) counts = {1};
  if (options.micro_batches > 1) counts.push_back(options.micro_batches);
  std::vector<Variant> all;
  for (Offload offload : offloads)
    for (int stage : stages)
      for (int count : counts)
        for (const std::vector<std::string>& remat : remats) {
          Variant v{stage > 0, count, schedule};
          v.schedule.remat = remat;
          v.schedule.offload = offload;
          if (stage > 1) v.schedule.zero_stage = stage;
          if (v.stored_parts || count > 1 || v.schedule != schedule) all.push_back(v);
          // A micro-batch's activations leave before those of the next one come; its passes are in one another's way.
          if (count == 1 || schedule.order != PipelineOrder::gpipe) continue;
          v.schedule.order = PipelineOrder::one_f_one_b;
          all.push_back(std::move(v));
        }
  return all;
}

// The weight that a chain of partitions, each used once, leads to from `value`; else none.
std::optional<NodeId> stored_weight(const Pcg& pcg, const std::vector<std::vector<Pcg::Use>>& uses, ValueRef value) {
  while (uses[value.node.index()].size() == 1) {
    const Node& n = pcg[value.node];
    if (n.op->name() == "weight") return value.node;
    if (n.op->name() != "partition") return std::nullopt;
    value = n.inputs[0];
  }
  return std::nullopt;
}

// The first dimension whose parts `degree` divides, else the first whole one that is as large: its parts differ by one;
// -1: none.
std::int64_t dimension_for(const ParallelShape& shape, std::int64_t degree) {
  for (std::size_t d = 0; d < shape.dims.size(); ++d)
    if (shape.dims[d].size % (shape.dims[d].degree * degree) == 0) return static_cast<std::int64_t>(d);
  for (std::size_t d = 0; d < shape.dims.size(); ++d)
    if (shape.dims[d].degree == 1 && shape.dims[d].size >= degree) return static_cast<std::int64_t>(d);
  return -1;
}

Result<Outcome> apply(const Outcome& plan, const Variant& v, const StrategyInput& input) {
  Pcg pcg = plan.candidate.pcg;
  std::vector<DerivationStep> steps = plan.derivation;
  if (v.stored_parts) {
    pcg = UNITY_TRY(with_stored_parts(pcg));
    steps.push_back({"gather_stored_parts", "all replicated weights", 0, 0});
  }
  if (v.micro_batches > 1) {
    pcg = UNITY_TRY(with_micro_batches(pcg, v.micro_batches));
    steps.push_back({"micro_batches", "the whole model", v.micro_batches, 0});
  }
  // Unequal shares stay as they are.
  std::optional<std::vector<int>> places = shared_places(plan.candidate.mappings);
  std::vector<MachineMapping> mappings = places ? share_out(pcg, *places) : std::vector<MachineMapping>();
  Candidate candidate = UNITY_TRY(places ? input.evaluator.evaluate(std::move(pcg), std::move(mappings), v.schedule)
                                         : input.evaluator.evaluate(std::move(pcg), v.schedule));
  return Outcome{std::move(candidate), std::move(steps), plan.stopped_because, {}};
}

}  // namespace

Result<Pcg> with_stored_parts(const Pcg& pcg) {
  static const Operator &partition = get_operator("partition"), &combine = get_operator("combine");
  std::vector<std::vector<Pcg::Use>> uses = pcg.uses();
  Pcg result;
  result.set_name(pcg.name());
  std::vector<std::vector<ValueRef>> moved(pcg.size());
  bool any = false;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    std::vector<ValueRef> inputs;
    for (ValueRef v : n.inputs) inputs.push_back(moved[v.node.index()][static_cast<std::size_t>(v.output)]);
    if (n.op->name() == "replicate")
      if (auto weight = stored_weight(pcg, uses, n.inputs[0])) {
        std::int64_t copies = int_attribute(n.attributes, 0);
        std::int64_t dim = dimension_for(pcg.shape(n.inputs[0]), copies);
        if (dim >= 0) {
          const Node& leaf = pcg[*weight];
          NodeId part = UNITY_TRY(result.try_add(partition, {dim, copies}, {inputs[0]}, leaf.origin, leaf.name));
          inputs[0] = {UNITY_TRY(result.try_add(combine, {dim, copies}, {{part, 0}}, leaf.origin, leaf.name)), 0};
          any = true;
        }
      }
    NodeId id = UNITY_TRY(result.try_add(*n.op, n.attributes, std::move(inputs), n.origin, n.name));
    for (std::size_t o = 0; o < n.outputs.size(); ++o) moved[i].push_back({id, static_cast<int>(o)});
  }
  if (!any) return fail("no weight has replicas that could each store a part of it");
  std::vector<ValueRef> outputs;
  for (ValueRef v : pcg.outputs()) outputs.push_back(moved[v.node.index()][static_cast<std::size_t>(v.output)]);
  result.set_outputs(std::move(outputs));
  return result;
}

std::vector<Outcome> memory_tradeoffs(const Outcome& plan, const StrategyInput& input, Tradeoffs which) {
  std::vector<Outcome> plans = {plan};
  auto try_stages = [&](const std::vector<int>& stages) {
    std::vector<Variant> tried = variants(plan.candidate.schedule, which, stages, input.options);
    std::vector<std::optional<Outcome>> scored(tried.size());
    parallel_for(tried.size(), input.evaluator.threads(), [&](std::size_t i) {
      if (auto variant = apply(plan, tried[i], input); variant.ok()) scored[i] = std::move(*variant);
    });
    for (std::optional<Outcome>& s : scored)
      if (s) plans.push_back(std::move(*s));
  };
  try_stages({0, 1});
  // What communicates more is of use where nothing else fits.
  if (which == Tradeoffs::all && plan.candidate.schedule.zero_stage == 0 &&
      (input.options.pareto || std::none_of(plans.begin(), plans.end(),
                                            [&](const Outcome& o) { return input.evaluator.fits(o.candidate.score); })))
    try_stages({2, 3});
  keep_front(plans);
  return plans;
}

void keep_front(std::vector<Outcome>& plans) {
  keep_pareto_front(
      plans, plans.size(), [](const Outcome& o) { return o.candidate.score.iteration.count; },
      [](const Outcome& o) { return o.candidate.score.peak().count; });
}

}  // namespace unity
