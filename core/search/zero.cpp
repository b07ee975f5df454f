// Strategy `deepspeed-zero`: data parallelism whose devices store a part of each weight, of its gradient and of the
// optimizer's state (ZeRO; Rajbhandari et al., 2020). A weight is gathered where it is used: an all-gather in the
// forward pass, a reduce-scatter of its gradient in the backward pass. What was gathered stays until the backward pass
// has used it: memory for weights is that of stage 2 there, storage that of stage 3.

#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/memory_tradeoffs.h"

namespace unity {

Result<Outcome> deepspeed_zero(const StrategyInput& input) {
  State state = UNITY_TRY(input.evaluator.record().timed(SearchLevel::substitution, [&]() -> Result<State> {
    State sharded = UNITY_TRY(shard_batch({normalize(input.model), {}, {}}, input.devices));
    if (input.devices > 1) sharded.pcg = UNITY_TRY(with_stored_parts(sharded.pcg));
    return sharded;
  }));
  Candidate candidate = UNITY_TRY(input.evaluator.evaluate(std::move(state.pcg)));
  state.steps.push_back({"gather_stored_parts", "all weights", input.devices, 0});
  return Outcome{std::move(candidate), std::move(state.steps), "one plan"};
}

}  // namespace unity
