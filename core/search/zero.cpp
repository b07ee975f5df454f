// Strategy `deepspeed-zero`: data parallelism whose devices store a part of each weight and of the optimizer's state
// (ZeRO; Rajbhandari et al., 2020): an all-gather of each weight, a reduce-scatter of each gradient. What else is held
// in parts is said by the stage (plan/zero_stages.h): the fastest that fits, in as few micro-batches (DeepSpeed's
// gradient accumulation) as it fits in.

#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/memory_tradeoffs.h"
#include "core/search/pipeline_stages.h"

namespace unity {

Result<Outcome> deepspeed_zero(const StrategyInput& input) {
  State state = UNITY_TRY(input.evaluator.record().timed(SearchLevel::substitution, [&]() -> Result<State> {
    State sharded = UNITY_TRY(shard_batch({normalize(input.model), {}, {}}, input.devices));
    if (input.devices == 1) return sharded;
    sharded.pcg = UNITY_TRY(with_stored_parts(sharded.pcg));
    sharded.steps.push_back({"gather_stored_parts", "all weights", input.devices, 0});
    return sharded;
  }));
  // Where none fits, the smallest says what would do.
  auto better = [&](const Outcome& a, const Outcome& b) {
    const Score &x = a.candidate.score, &y = b.candidate.score;
    const bool fits = input.evaluator.fits(x), other_fits = input.evaluator.fits(y);
    if (fits != other_fits) return fits;
    return fits ? x.iteration < y.iteration : x.peak() < y.peak();
  };
  std::vector<Outcome> plans;
  Result<Outcome> best = fail("no plan was found");
  for (int micro_batches : {1, 2, 4, 8}) {
    for (int stage : {1, 2, 3}) {
      Schedule schedule = input.options.schedule;
      if (schedule.zero_stage > 0 && stage != schedule.zero_stage) continue;
      schedule.zero_stage = stage;
      // A micro-batch's activations leave before those of the next one come.
      if (micro_batches > 1 && schedule.order == PipelineOrder::gpipe) schedule.order = PipelineOrder::one_f_one_b;
      Result<Outcome> plan = input.evaluator.record().timed(SearchLevel::substitution, [&]() -> Result<Outcome> {
        Outcome made{{}, state.steps, {}, {}};
        made.candidate.pcg = micro_batches > 1 ? UNITY_TRY(with_micro_batches(state.pcg, micro_batches)) : state.pcg;
        if (micro_batches > 1) made.derivation.push_back({"micro_batches", "the whole model", micro_batches, 0});
        return made;
      });
      if (!plan.ok()) continue;
      auto candidate = input.evaluator.evaluate(std::move(plan->candidate.pcg), schedule);
      if (!candidate.ok() && micro_batches == 1 && !best.ok()) best = candidate.error();
      if (!candidate.ok()) continue;
      plan->candidate = std::move(*candidate);
      plan->stopped_because = micro_batches == 1 ? fmt::format("stage {} is the fastest that fits", stage)
                                                 : fmt::format("stage {} in {} micro-batches is the fastest that fits",
                                                               stage, micro_batches);
      if (input.options.pareto) plans.push_back(*plan);
      input.evaluator.found(plan->candidate.score);
      if (!best.ok() || better(*plan, *best)) best = std::move(plan);
    }
    if (best.ok() && input.evaluator.fits(best->candidate.score) && !input.options.pareto) break;
  }
  keep_front(plans, input.evaluator);
  if (best.ok()) best->front = std::move(plans);
  return best;
}

}  // namespace unity
