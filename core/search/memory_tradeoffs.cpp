#include "core/search/memory_tradeoffs.h"

#include <algorithm>
#include <limits>

#include "core/base/parallel.h"
#include "core/search/data_parallel.h"
#include "core/search/pareto.h"
#include "core/search/pipeline_stages.h"

namespace unity {
namespace {

// Of such plans each variant takes long to lower and to simulate: those that cannot fit are not, nor those that save
// more than one that fits.
constexpr std::int64_t kManyTasks = 100'000, kManyNodes = 5000;
constexpr std::int64_t kMostMicroBatches = 1024;
constexpr double kGainOfLarge = 1.02;  // that such a plan has to promise

bool is_large(const Candidate& c) {
  return c.tasks > kManyTasks || static_cast<std::int64_t>(c.pcg.size()) > kManyNodes;
}

struct Variant {
  bool stored_parts = false;
  int micro_batches = 1;
  Schedule schedule;

  friend bool operator==(const Variant&, const Variant&) = default;
  // Whether a plan of `other` is this one but for what it has moved to the host or computes again, all of it and more.
  bool saved_further_by(const Variant& other) const {
    return micro_batches == other.micro_batches && needs_as_much_as(other);
  }
  // Or the batch in more parts.
  bool needs_as_much_as(const Variant& other) const {
    auto depth = [](const Schedule& s) { return s.remat.empty() ? 0 : s.remat[0] == "all" ? 2 : 1; };
    Schedule alike = other.schedule;
    alike.remat = schedule.remat, alike.offload = schedule.offload;
    return stored_parts == other.stored_parts && micro_batches <= other.micro_batches && alike == schedule &&
           depth(schedule) <= depth(other.schedule) && schedule.offload <= other.schedule.offload;
  }
};

// Of a plan with this schedule, without itself. `stages`: of ZeRO, for weights that are stored in parts; 0: as the plan
// has them. `stored`: it stores them in parts already.
// `counts`: of micro-batches, unless the options say how many.
std::vector<Variant> variants(const Schedule& schedule, Tradeoffs which, const std::vector<int>& stages, bool stored,
                              std::vector<int> counts, const SearchOptions& options) {
  if (which == Tradeoffs::stored_parts) {
    std::vector<Variant> stored = {{true, 1, schedule}};
    // Gathers of weights may take the place of what gradients of weights were put behind.
    if (schedule.overlap == 1 && options.overlap && options.schedule.overlap == 0)
      stored.push_back(stored[0]), stored[1].schedule.overlap = 0;
    return stored;
  }
  std::vector<std::vector<std::string>> remats = {schedule.remat};
  if (options.remat && remats[0].empty()) remats.insert(remats.end(), {{"blocks"}, {"all"}});
  std::vector<Offload> offloads = {schedule.offload};
  if (options.offload && offloads[0] == Offload::none)
    offloads.insert(offloads.end(), {Offload::optimizer, Offload::activations_and_optimizer});
  if (options.micro_batches > 0) counts = {1};
  if (options.micro_batches > 1) counts.push_back(options.micro_batches);
  std::vector<Variant> all;
  for (Offload offload : offloads)
    for (int stage : stages)
      for (int count : counts)
        for (const std::vector<std::string>& remat : remats) {
          Variant v{stage > 0 && !stored, count, schedule};
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

// Of the powers of two and three times those, beyond the usual ones, those that divide the batch.
std::vector<int> more_micro_batches(const Pcg& pcg, Tradeoffs which, const SearchOptions& options) {
  std::vector<int> counts;
  const Result<ValueRef> batch = batch_leaf(pcg);
  if (which == Tradeoffs::stored_parts || options.micro_batches > 0 || !batch.ok()) return counts;
  const std::int64_t samples = pcg.shape(*batch).dims[0].size;
  for (int power = 4; 3 * power <= std::min<std::int64_t>(samples, kMostMicroBatches); power *= 2)
    for (int count : {3 * power, 4 * power})
      if (samples % count == 0) counts.push_back(count);
  return counts;
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

// Whether its replicas of weights are stored in parts, as with_stored_parts has it.
bool stores_parts(const Pcg& pcg) {
  std::vector<std::vector<Pcg::Use>> uses = pcg.uses();
  return std::any_of(pcg.nodes().begin(), pcg.nodes().end(),
                     [&](const Node& n) {
                       if (n.op->name() != "replicate") return false;
                       const Node& combine = pcg[n.inputs[0].node];
                       return combine.op->name() == "combine" &&
                              stored_weight(pcg, uses, combine.inputs[0]).has_value();
                     }) &&
         !with_stored_parts(pcg).ok();
}

// What weights take on all devices together, with all replicas and without.
struct WeightBytes {
  std::int64_t replicas = 0, once = 0;
};
WeightBytes weight_bytes(const Pcg& pcg) {
  std::vector<std::vector<Pcg::Use>> uses = pcg.uses();
  WeightBytes bytes;
  for (const Node& n : pcg.nodes()) {
    if (n.op->name() == "weight")
      bytes.once += n.outputs[0].shape().bytes(), bytes.replicas += n.outputs[0].shape().bytes();
    if (n.op->name() != "replicate") continue;
    if (auto weight = stored_weight(pcg, uses, n.inputs[0]))
      bytes.replicas += pcg[*weight].outputs[0].shape().bytes() * (int_attribute(n.attributes, 0) - 1);
  }
  return bytes;
}

// Whether all devices together could hold the weights and the optimizer's states, as the variant stores them; weights
// are whole for a part of the step unless in stage 3 of ZeRO. Activations and gradients come on top.
bool may_fit(const WeightBytes& weights, const Variant& v, const StrategyInput& input) {
  const std::int64_t stored = v.stored_parts ? weights.once : weights.replicas;
  const bool states_wait =
      v.schedule.offload == Offload::optimizer || v.schedule.offload == Offload::activations_and_optimizer;
  std::int64_t bytes = stored + (states_wait ? 0 : stored * input.options.optimizer.states());
  if (v.stored_parts && v.schedule.zero_stage < 3) bytes += weights.replicas - weights.once;
  std::int64_t room = 0;
  for (int d = 0; d < input.devices; ++d) room += input.evaluator.memory_of(DeviceId(d)).count;
  return bytes <= room;
}

// Those of which `behind` holds for no other.
template <class F>
std::vector<Variant> without_those(std::vector<Variant> variants, F behind) {
  const std::vector<Variant> all = variants;
  std::erase_if(variants, [&](const Variant& v) {
    return std::any_of(all.begin(), all.end(), [&](const Variant& other) { return !(other == v) && behind(v, other); });
  });
  return variants;
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

bool may_gain(const Outcome& plan, const Outcome& best) {
  const double promised = plan.candidate.score.iteration.seconds(), known = best.candidate.score.iteration.seconds();
  return promised * (is_large(plan.candidate) ? kGainOfLarge : 1) <= known;
}

std::vector<Outcome> memory_tradeoffs(const Outcome& plan, const StrategyInput& input, Tradeoffs which) {
  std::vector<Outcome> plans = {plan};
  const bool large = is_large(plan.candidate) && !input.options.pareto;
  const WeightBytes weights = large ? weight_bytes(plan.candidate.pcg) : WeightBytes{};
  const bool stored = which == Tradeoffs::all && stores_parts(plan.candidate.pcg);
  auto try_all = [&](const std::vector<int>& stages, const std::vector<int>& counts) {
    std::vector<Variant> tried = variants(plan.candidate.schedule, which, stages, stored, counts, input.options);
    std::vector<Variant> fitting;
    if (large) std::erase_if(tried, [&](const Variant& v) { return !may_fit(weights, v, input); });
    auto score = [&](std::vector<Variant> now) {  // a copy, as `tried` changes
      std::vector<std::optional<Outcome>> scored(now.size());
      parallel_for(now.size(), input.evaluator.threads(), [&](std::size_t i) {
        if (auto variant = apply(plan, now[i], input); variant.ok()) scored[i] = std::move(*variant);
      });
      std::vector<Variant> large_ones;
      for (std::size_t i = 0; i < now.size(); ++i) {
        std::erase(tried, now[i]);
        if (!scored[i]) continue;
        (input.evaluator.fits(scored[i]->candidate.score) ? fitting : large_ones).push_back(now[i]);
        plans.push_back(std::move(*scored[i]));
      }
      return large_ones;
    };
    if (!large) {
      score(tried);
      return;
    }
    // Of those of each kind first the one that saves most: where it does not fit, no other does. Then from the one that
    // saves least, until one fits.
    std::vector<Variant> first =
        without_those(tried, [&](const Variant& v, const Variant& other) { return v.needs_as_much_as(other); });
    for (const Variant& deepest : score(first))
      std::erase_if(tried, [&](const Variant& v) { return v.needs_as_much_as(deepest); });
    while (!tried.empty() && !input.evaluator.stopping()) {
      score(without_those(tried, [](const Variant& v, const Variant& other) { return other.saved_further_by(v); }));
      std::erase_if(tried, [&](const Variant& v) {
        return std::any_of(fitting.begin(), fitting.end(), [&](const Variant& f) { return f.saved_further_by(v); });
      });
    }
  };
  auto none_fits = [&] {
    return std::none_of(plans.begin(), plans.end(),
                        [&](const Outcome& o) { return input.evaluator.fits(o.candidate.score); });
  };
  const std::vector<int> usual = {1, 2, 4, 8}, as_it_is = stored ? std::vector{0} : std::vector{0, 1};
  try_all(as_it_is, usual);
  // What communicates more is of use where nothing else fits.
  if (which == Tradeoffs::all && plan.candidate.schedule.zero_stage == 0 && (input.options.pareto || none_fits()))
    try_all({2, 3}, usual);
  // So are more micro-batches, as long as they save anything.
  auto least_excess = [&] {
    double least = std::numeric_limits<double>::infinity();
    for (const Outcome& o : plans) least = std::min(least, input.evaluator.excess(o.candidate.score));
    return least;
  };
  for (int count : more_micro_batches(plan.candidate.pcg, which, input.options)) {
    if (!none_fits() || input.evaluator.stopping()) break;
    const double before = least_excess();
    try_all(as_it_is, {count});
    if (least_excess() >= before) break;
  }
  if (which == Tradeoffs::all) keep_front(plans, input.evaluator);
  return plans;
}

void keep_front(std::vector<Outcome>& plans, const Evaluator& evaluator) {
  keep_pareto_front(
      plans, plans.size(), [](const Outcome& o) { return o.candidate.score.iteration.count; },
      [](const Outcome& o) { return o.candidate.score.peak().count; },
      [&](const Outcome& o) { return evaluator.fits(o.candidate.score); });
}

}  // namespace unity
