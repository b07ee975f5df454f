// How operators inside a stage can be split, and which stages are proposed then.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "core/base/parallel.h"
#include "core/models/models.h"
#include "core/search/column_then_row.h"
#include "core/search/data_parallel.h"
#include "core/search/intra_costs.h"
#include "core/search/intra_stage.h"
#include "core/search/stage_layers.h"
#include "core/search/stage_proposals.h"
#include "simulator/cost_model.h"
#include "tests/support/dice.h"
#include "tests/support/seed.h"

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

TEST_CASE("what was proposed for pipelines is proposed again, also to several threads") {
  const Pcg model = build_model({"mlp", {{"batch", 96}, {"layers", 6}, {"hidden", 512}}});
  SimulatedCostModel cost(load_topology("summit", {2, {}}));
  Evaluator evaluator(cost, {true, {}, {}}, {});
  const SearchOptions options;
  StrategyInput input{model, evaluator, options, 12};
  IntraPlans plans(model, input);
  plans.prepare(stage_widths(input));
  const std::vector<std::size_t> layers = cluster_layers(plans, 4);
  std::vector<ProposalRequest> requests;
  for (int micro_batches : {2, 4, 8})
    for (bool plain : {false, true})
      for (double margin : {1.0, 1e-6})  // of which the second leaves nothing that fits
        requests.push_back({.micro_batches = micro_batches, .plain = plain, .margin = margin});
  auto same = [](const std::vector<Proposal>& a, const std::vector<Proposal>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Proposal& x, const Proposal& y) { return x.time == y.time && x.plan == y.plan; });
  };
  StageProposals proposals(input, plans, Bytes{1000});
  std::vector<std::vector<Proposal>> kept(4 * requests.size());
  parallel_for(kept.size(), 4,
               [&](std::size_t i) { kept[i] = proposals.propose(layers, requests[i % requests.size()]); });
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const ProposalRequest& request = requests[i % requests.size()];
    CHECK(kept[i].empty() == (request.margin < 1));
    CHECK(same(kept[i], StageProposals(input, plans, Bytes{1000}).propose(layers, request)));
    for (const Proposal& p : kept[i]) CHECK(p.plan.bucket == Bytes{1000});
  }
  CHECK_FALSE(same(proposals.propose(cluster_layers(plans, 2), requests[0]), kept[0]));
}

// Groups that lie alike are priced once: no group of its own may take longer than what is told of all. Between more
// than two levels of switches, latencies of groups that are told to lie alike may differ.
TEST_CASE("collectives of stages take as long as those of their slowest group") {
  const Pcg model = build_model({"mlp", {{"batch", 96}, {"layers", 2}, {"hidden", 64}}});
  test::Dice dice(test::seed_of_run());
  int alone = 0;
  for (const auto& [name, nodes] : std::vector<std::pair<std::string, int>>{{"summit", 4},
                                                                            {"dgx-h100", 4},
                                                                            {"dgx-v100", 2},
                                                                            {"fat-tree-4to1", 0},
                                                                            {"dragonfly", 0},
                                                                            {"torus-2d", 0},
                                                                            {"mixed-gpus", 0},
                                                                            {"pcie-host", 0}}) {
    SimulatedCostModel cost(load_topology(name, {nodes, {}}));
    const Topology& topology = cost.topology();
    const int devices = static_cast<int>(topology.device_count());
    const bool deep = nodes == 0 && devices > 16;
    Evaluator evaluator(cost, {}, {});
    const SearchOptions options;
    StrategyInput input{model, evaluator, options, devices};
    IntraPlans plans(model, input);
    IntraCosts costs(input, plans);
    for (int i = 0; i < 40; ++i) {
      const int group = 2 + static_cast<int>(dice.below(static_cast<std::size_t>(std::min(devices, 16) - 1)));
      const int stride = 1 + static_cast<int>(dice.below(static_cast<std::size_t>(devices / group)));
      const int blocks = 1 + static_cast<int>(dice.below(static_cast<std::size_t>(devices / (group * stride))));
      const int count = group * stride * blocks;
      const int first = static_cast<int>(dice.below(static_cast<std::size_t>(devices - count + 1)));
      constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                           CollectiveKind::reduce_scatter, CollectiveKind::all_to_all,
                                           CollectiveKind::broadcast};
      const CollectiveKind kind = kKinds[dice.below(std::size(kKinds))];
      const Bytes bytes{1 << dice.below(27)};
      std::int64_t slowest = 0;
      std::set<std::size_t> used;
      bool apart = true;  // no link is on the rings of two groups
      for (int block = 0; block < count; block += group * stride)
        for (int offset = 0; offset < stride; ++offset) {
          std::vector<DeviceId> of_group;
          for (int k = 0; k < group; ++k) of_group.emplace_back(first + block + offset + k * stride);
          slowest = std::max(slowest, cost.collective_time(kind, of_group, bytes).count);
          std::set<std::size_t> links;
          for (int k = 0; k < group; ++k)
            for (LinkId l : topology.route(of_group[static_cast<std::size_t>(k)],
                                           of_group[static_cast<std::size_t>((k + 1) % group)]))
              links.insert(l.index());
          for (std::size_t l : links) apart = used.insert(l).second && apart;
        }
      const std::int64_t told = costs.collective(kind, group, stride, {first, count}, static_cast<double>(bytes.count));
      INFO(name << ": " << to_string(kind) << " of " << bytes.count << " B, " << group << " devices " << stride
                << " apart, of " << count << " from " << first << " on, seed " << test::seed_of_run());
      CHECK(static_cast<double>(told) >= (deep ? 0.85 : 1) * static_cast<double>(slowest));
      if (!apart || deep) continue;
      CHECK(told == slowest);
      ++alone;
    }
  }
  CHECK(alone > 20);
}

}  // namespace unity
