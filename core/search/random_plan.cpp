#include "core/search/random_plan.h"

#include "core/rewrite/match.h"
#include "core/rewrite/normalize.h"
#include "core/search/strategy.h"

namespace unity {
namespace {

// By number, those of the library that match somewhere.
std::vector<int> matching_rules(const Pcg& pcg) {
  std::vector<int> rules;
  MatchIndex index(pcg);
  for (std::size_t r = 0; r < rule_library().size(); ++r)
    if (!find_matches(index, rule_library()[r]).empty()) rules.push_back(static_cast<int>(r));
  return rules;
}

}  // namespace

State random_state(const Pcg& serial, int devices, std::mt19937_64& random) {
  State state{normalize(serial), {}, {}};
  std::size_t length = 1 + random() % 5;
  for (int attempt = 0; attempt < 40 && state.moves.size() < length; ++attempt) {
    Move move;
    switch (random() % 4) {
      case 0:
        move = {Move::Kind::replicate_all, 0, 0, 2 + static_cast<int>(random() % 2)};
        break;
      case 1: {
        std::vector<int> rules = matching_rules(state.pcg);
        if (rules.empty()) continue;
        move = {Move::Kind::rule, rules[random() % rules.size()], static_cast<int>(random() % 3), 0};
        break;
      }
      default:
        move = {Move::Kind::shard_class, static_cast<int>(random() % 24), 0, 2 + static_cast<int>(random() % 3)};
    }
    auto next = apply_move(state, move);
    if (!next.ok()) continue;
    bool fits = true;
    for (std::size_t i = 0; i < next->pcg.size(); ++i)
      fits = fits && task_count(node_grid(next->pcg, NodeId(static_cast<std::int64_t>(i)))) <= devices;
    if (fits) state = std::move(*next);
  }
  return state;
}

std::vector<MachineMapping> random_mappings(const Pcg& pcg, const Topology& topology, std::mt19937_64& random) {
  int devices = static_cast<int>(topology.device_count());
  std::vector<MachineMapping> result(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    TaskGrid grid = node_grid(pcg, NodeId(static_cast<std::int64_t>(i)));
    std::vector<MachineMapping> choices = mappings(grid, topology, {0, devices});
    int tasks = task_count(grid);
    if (choices.empty() || random() % 3 == 0)
      choices = {natural_mapping(grid, static_cast<int>(random() % static_cast<std::uint64_t>(devices - tasks + 1)))};
    result[i] = choices[random() % choices.size()];
  }
  return result;
}

// A strategy for experiments: the first of several random states with random mappings that can be lowered and fits.
Result<Outcome> random_plan(const StrategyInput& input) {
  constexpr int kAttempts = 50;
  std::mt19937_64 random(input.options.seed);
  const Topology& topology = input.evaluator.cost().topology();
  std::string reason = "no random rule applied";
  std::optional<Candidate> smallest;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    State state = random_state(input.model, input.devices, random);
    if (state.moves.empty()) continue;
    std::vector<MachineMapping> mappings = random_mappings(state.pcg, topology, random);
    Result<Candidate> candidate = input.evaluator.evaluate(state.pcg, std::move(mappings));
    if (candidate.ok() && input.evaluator.fits(candidate->score))
      return Outcome{std::move(*candidate), std::move(state.steps), "one random plan"};
    if (!candidate.ok())
      reason = candidate.error().message;
    else if (!smallest || candidate->score.peak() < smallest->score.peak())
      smallest = std::move(*candidate);
  }
  if (smallest) return does_not_fit("random", smallest->score, input.evaluator, "the smallest of the random plans");
  return fail("strategy random: {} attempts gave no plan that runs: {}", kAttempts, reason);
}

}  // namespace unity
