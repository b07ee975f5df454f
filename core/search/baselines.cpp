// Baseline strategies.

#include <algorithm>

#include "core/base/parallel.h"
#include "core/rewrite/normalize.h"
#include "core/search/column_then_row.h"
#include "core/search/data_parallel.h"
#include "core/search/device_speeds.h"
#include "core/search/parallelism.h"
#include "core/search/placed_operators.h"
#include "core/search/split_vocabulary.h"

namespace unity {

namespace {

Result<Outcome> equal_data_parallel(const StrategyInput& input) {
  State state = UNITY_TRY(input.evaluator.record().timed(SearchLevel::substitution, [&] {
    return shard_batch({normalize(input.model), {}, {}}, input.devices);
  }));
  Candidate candidate = UNITY_TRY(input.evaluator.evaluate(state.pcg));
  return Outcome{std::move(candidate), std::move(state.steps), "one plan", {}};
}

}  // namespace

Result<Outcome> data_parallel(const StrategyInput& input) {
  Result<Outcome> unequal = unequal_data_parallel(input), equal = equal_data_parallel(input);
  if (!unequal.ok()) return equal;
  take_better(unequal, std::move(equal), input);
  return unequal;
}

namespace {

// Megatron-LM's: by batch, by words, then pairs of matmuls by columns and rows.
Result<Outcome> tensor_parallel(const StrategyInput& input) {
  int per_node = std::min(input.devices, common_node_size(input.evaluator.cost().topology()));
  if (per_node < 2)
    return fail("strategy expert: found {} device in a node, expected at least 2 to split a matmul over", per_node);
  Result<Outcome> best = fail("strategy expert: the model has no pairs of matmuls to split by columns, then rows");
  const auto& allowed = input.options.parallelism;
  auto stop = [&] { return input.evaluator.stopping(); };
  auto split = [&](Result<State> state, int model, bool vocabulary) {
    if (state.ok()) state = shard_batch(*state, input.devices / model);
    if (state.ok()) state = apply_move(*state, {Move::Kind::replicate_all, 0, 0, model});
    if (state.ok() && vocabulary) state = split_vocabulary(*state, model);
    if (state.ok()) state = column_then_row(*state, model, input.devices, false, allowed, stop);
    return state;
  };
  const State whole{normalize(input.model), {}, {}};
  std::vector<std::pair<int, bool>> ways;  // of splitting the model, and the vocabulary, too
  for (int model = 2; model <= per_node; ++model)
    for (bool vocabulary : {false, true}) {
      if (input.devices % model != 0 || per_node % model != 0) continue;
      if (model < input.devices && !is_allowed({"data"}, allowed)) continue;
      if (vocabulary && (!input.options.algebra || !is_allowed({"model", "reduction"}, allowed))) continue;
      ways.emplace_back(model, vocabulary);
    }
  std::vector<Result<Outcome>> plans(ways.size(), fail("not tried"));
  parallel_for(ways.size(), input.evaluator.threads(), [&](std::size_t i) {
    auto [model, vocabulary] = ways[i];
    auto state = input.evaluator.record().timed(SearchLevel::substitution, [&, model = model, words = vocabulary] {
      return split(words ? unfuse_cross_entropy(whole) : Result<State>(whole), model, words);
    });
    if (!state.ok()) {
      plans[i] = state.error();
      return;
    }
    auto candidate = input.evaluator.evaluate(state->pcg);
    if (candidate.ok())
      plans[i] = Outcome{std::move(*candidate),
                         std::move(state->steps),
                         fmt::format("{}-way model{}, {}-way data parallelism is the fastest that divides a node",
                                     model, vocabulary ? " (also of the vocabulary)" : "", input.devices / model),
                         {}};
    else
      plans[i] = candidate.error();
  });
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].ok())
      take_better(best, std::move(plans[i]), input);
    else if (!best.ok() && !ways[i].second)
      best = Error{"strategy expert: " + plans[i].error().message};
  }
  return best;
}

}  // namespace

Result<Outcome> expert(const StrategyInput& input) {
  // A model with tables has experts of its own, who beat Megatron's.
  auto tables = placed_tables(input);
  if (tables.ok()) return tables;
  auto best = tensor_parallel(input);
  const auto& nodes = input.model.nodes();
  bool transformer = std::any_of(nodes.begin(), nodes.end(), [](const Node& n) {
    return n.op->name() == "attention" || n.op->name() == "softmax";
  });
  if (transformer) return best;
  // What tables are to a recommendation model, large weights are to one of dense layers, as CANDLE-Uno.
  if (auto placed = placed_operators(input, input.options.schedule.bucket); placed.ok())
    take_better(best, std::move(placed), input);
  return best;
}

}  // namespace unity
