// Strategy `megatron-grid`: the best of all tensor x data x pipeline parallelism of one shape for the whole model
// (Narayanan et al., 2021, section 3): pairs of matmuls by columns and rows inside a stage, the batch over what is left
// of it, stages of consecutive operators; 1F1B where GPipe does not fit.

#include <algorithm>

#include "core/rewrite/normalize.h"
#include "core/search/column_then_row.h"
#include "core/search/data_parallel.h"
#include "core/search/device_speeds.h"
#include "core/search/pipeline_stages.h"
#include "core/search/substitution.h"

namespace unity {
namespace {

struct Grid {
  int tensor = 1, data = 1, stages = 1, micro_batches = 1;
};

Result<Outcome> try_grid(const StrategyInput& input, const Grid& g) {
  SearchRecorder& record = input.evaluator.record();
  State state = UNITY_TRY(record.timed(SearchLevel::substitution, [&]() -> Result<State> {
    State sharded = UNITY_TRY(shard_batch({normalize(input.model), {}, {}}, g.data));
    if (g.tensor == 1) return sharded;
    sharded = UNITY_TRY(apply_move(sharded, {Move::Kind::replicate_all, 0, 0, g.tensor}));
    return column_then_row(sharded, g.tensor, input.devices, false, {}, [&] { return input.evaluator.stopping(); });
  }));
  std::string what = fmt::format("{}-way tensor, {}-way data, {}-way pipeline parallelism, {} micro-batches", g.tensor,
                                 g.data, g.stages, g.micro_batches);
  if (g.stages == 1) {
    Candidate candidate = UNITY_TRY(input.evaluator.evaluate(state.pcg));
    return Outcome{std::move(candidate), std::move(state.steps), what};
  }
  auto operators = compute_operators(state.pcg);
  if (operators < g.stages) return fail("{} stages for {} operators", g.stages, operators);
  Pcg pcg = UNITY_TRY(
      record.timed(SearchLevel::substitution, [&] { return with_micro_batches(state.pcg, g.micro_batches); }));
  auto mappings = UNITY_TRY(record.timed(SearchLevel::mapping, [&] {
    int width = g.tensor * g.data;
    std::vector<double> speeds = stage_speeds(device_speeds(pcg, input.evaluator.cost()), g.stages, g.stages, width);
    return map_stages(pcg, balanced_stages(pcg, speeds), even_devices(g.stages, g.stages, width));
  }));
  Candidate candidate = UNITY_TRY(input.evaluator.evaluate(pcg, mappings));
  // Where all micro-batches together do not fit, those that are in flight may.
  if (input.options.schedule.order == PipelineOrder::gpipe && !input.evaluator.fits(candidate.score)) {
    Schedule schedule = input.options.schedule;
    schedule.order = PipelineOrder::one_f_one_b;
    auto other = input.evaluator.evaluate(std::move(pcg), std::move(mappings), schedule);
    if (other.ok() && input.evaluator.fits(other->score)) candidate = std::move(*other);
  }
  return Outcome{std::move(candidate), std::move(state.steps), what};
}

}  // namespace

Result<Outcome> megatron_grid(const StrategyInput& input) {
  int per_node = std::min(input.devices, common_node_size(input.evaluator.cost().topology()));
  Result<Outcome> best = fail("strategy megatron-grid: no grid of {} devices was tried", input.devices);
  int tried = 0;
  for (int stages = 1; stages <= input.devices; ++stages) {
    if (input.devices % stages != 0) continue;
    int width = input.devices / stages;
    for (int tensor = 1; tensor <= std::min(width, per_node); ++tensor) {
      if (width % tensor != 0 || per_node % tensor != 0) continue;
      for (int waves : stages == 1 ? std::vector{1} : std::vector{1, 2, 4, 8}) {
        const bool spent = input.evaluator.scored() >= std::max(1, input.options.budget);
        if (tried > 0 && (spent || input.evaluator.stopping())) break;
        Result<Outcome> next = try_grid(input, {tensor, width / tensor, stages, waves * stages});
        ++tried;
        if (!next.ok()) next = Error{"strategy megatron-grid: " + next.error().message};
        take_better(best, std::move(next), input);
      }
    }
  }
  if (best.ok()) best->stopped_because += fmt::format(": the fastest of {} grids", tried);
  return best;
}

}  // namespace unity
