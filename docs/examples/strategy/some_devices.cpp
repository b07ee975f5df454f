#include "docs/examples/strategy/some_devices.h"

#include "core/base/text.h"
#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"

namespace unity {

Result<Outcome> some_devices(const StrategyInput& input) {
  Result<Outcome> best = fail("strategy some-devices: the batch cannot be split");
  for (int degree = 1; degree <= input.devices; ++degree) {
    // The operators of the model, each split along the batch; an error where `degree` does not divide it.
    Result<State> state = shard_batch({normalize(input.model), {}, {}}, degree);
    if (!state.ok()) continue;
    // Machine mappings are searched for, the plan is lowered and simulated.
    Result<Candidate> candidate = input.evaluator.evaluate(std::move(state->pcg));
    if (!candidate.ok()) continue;
    take_better(best,
                Outcome{std::move(*candidate),
                        std::move(state->steps),
                        fmt::format("{} of {} devices are the fastest", degree, input.devices),
                        {}},
                input);
  }
  return best;
}

}  // namespace unity
