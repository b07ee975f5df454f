// How operators inside a stage can be split.
#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/search/column_then_row.h"
#include "core/search/data_parallel.h"
#include "core/search/intra_stage.h"
#include "simulator/cost_model.h"

namespace unity {

TEST_CASE("columns and rows are the same whether the batch is split before or after") {
  const std::vector<ModelSpec> models = {
      {"mlp", {{"batch", 96}, {"layers", 5}, {"hidden", 96}}},
      {"candle-uno", {{"batch", 96}, {"hidden", 96}, {"layers", 4}}},
      {"gpt2-small", {{"batch", 24}, {"layers", 2}, {"hidden", 96}, {"heads", 12}, {"seq-len", 24}, {"vocab", 96}}},
      {"dlrm", {{"batch", 96}, {"hidden", 96}, {"rows", 100}}},
  };
  int split = 0;
  for (const ModelSpec& spec : models) {
    const Pcg model = build_model(spec);
    SimulatedCostModel cost(load_topology("summit", {4, {}}));
    Evaluator evaluator(cost, {}, {});
    const SearchOptions options;
    StrategyInput input{model, evaluator, options, 24};
    IntraPlans plans(model, input);
    for (int data : {1, 2, 3, 4, 6})
      for (int tensor : {2, 3, 4, 5, 6})
        for (IntraPlan::Rest rest : {IntraPlan::Rest::few, IntraPlan::Rest::copies}) {
          INFO(spec.name << ", " << to_string(IntraPlan{data, tensor, rest}));
          const Pcg* found = plans.sharded({data, tensor, rest});
          Result<State> state = shard_batch({plans.model(), {}, {}}, data);
          REQUIRE(state.ok());
          if (rest == IntraPlan::Rest::copies) {
            const Move copy{Move::Kind::replicate_all, 0, 0, tensor};
            state = apply_move(*state, copy);
            REQUIRE(state.ok());
          }
          state = column_then_row(*state, tensor, data * tensor, true);
          REQUIRE((found != nullptr) == state.ok());
          if (!found) continue;
          CHECK(canonical_hash(*found) == canonical_hash(state->pcg));
          ++split;
        }
  }
  CHECK(split > 100);
}

}  // namespace unity
