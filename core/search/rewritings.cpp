#include "core/search/rewritings.h"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/normalize.h"
#include "core/search/work_estimate.h"

namespace unity {
namespace {

constexpr std::size_t kKept = 8;  // of one state

struct Rewriting {
  Move move;
  const Rule* rule;
  const Match* match;
  Hash place;
  Reached reached;
  bool applied = false;
  std::int64_t gain = 0;
};

// What rules find at matches, up to names: operators, and whether values are the same or used elsewhere.
class Places {
 public:
  explicit Places(const MatchIndex& index) {
    for (const Node& n : index.pcg.nodes()) {
      Hash hash = combine(hash_text(n.op->name()), hash_attributes(n.attributes));
      for (const ParallelShape& s : n.outputs) hash = combine(hash, hash_shape(s));
      nodes_.push_back(combine(hash, index.uses[nodes_.size()].size()));
      for (ValueRef v : n.inputs) hash = combine(hash, hash_shape(index.pcg.shape(v)));
      with_operands_.push_back(combine(nodes_.back(), hash));
    }
  }

  Hash hash(const Move& move, const Match& match) const {
    Hash hash = mix(static_cast<Hash>(move.index));
    for (NodeId id : match.nodes) hash = combine(hash, with_operands_[id.index()]);
    for (std::size_t v = 0; v < match.values.size(); ++v) {
      auto first = std::find(match.values.begin(), match.values.end(), match.values[v]);
      hash = combine(hash, static_cast<Hash>(first - match.values.begin()));
      if (!match.values[v].node.valid()) continue;
      hash = combine(hash, static_cast<Hash>(match.values[v].output));
      hash = combine(hash, nodes_[match.values[v].node.index()]);
    }
    return hash;
  }

 private:
  std::vector<Hash> nodes_, with_operands_;
};

GraphMatches matches_of(const State& state, const MatchIndex& index, const PreparedRules& rules) {
  if (!state.from || state.from->matches.ends.empty()) return find_matches(index, rules);
  return find_matches(index, rules, state.from->pcg, state.from->matches);
}

std::vector<Rewriting> all_rewritings(const MatchIndex& index, const std::vector<Rule>& library,
                                      const PreparedRules& rules, const GraphMatches& matches) {
  std::vector<Rewriting> all;
  all.reserve(matches.all.size());
  Places places(index);
  for (std::size_t r = 0; r < rules.rules().size(); ++r) {
    int number = rules.rules()[r].number;
    int m = 0;
    for (const Match& match : matches.of(r)) {
      Move move{Move::Kind::rule, number, m++, 0};
      all.push_back({move, &library[static_cast<std::size_t>(number)], &match, places.hash(move, match), {}});
    }
  }
  return all;
}

}  // namespace

PreparedRules prepare_algebraic(const std::vector<Rule>& rules) {
  return PreparedRules(rules, [](const Rule& rule) { return rule.algebraic(); });
}

Result<State> rewrite(const State& state, const Move& move, const Rule& rule, const Match& match) {
  State next{{}, state.moves, state.steps};
  next.pcg = normalize(UNITY_TRY(apply(state.pcg, rule, match, {})));
  next.steps.push_back({rule.name, state.pcg[match.root()].name, 0, 0});
  next.moves.push_back(move);
  return next;
}

std::vector<Reached> rewritings(const State& state, const SubstitutionOptions& options, Evaluator& evaluator,
                                RewritingGains& gains, GraphMatches* matches) {
  const DeviceSpec& device = evaluator.cost().topology().specs.at(0);
  SearchRecorder& record = evaluator.record();
  double work = 0;
  GraphMatches own;
  GraphMatches& found = matches ? *matches : own;
  std::vector<Rewriting> all = record.timed(SearchLevel::substitution, [&] {
    work = work_seconds(state.pcg, device);
    const std::vector<Rule>& library = options.rules ? *options.rules : rule_library();
    std::optional<PreparedRules> prepared;
    const PreparedRules& rules = options.prepared ? *options.prepared : prepared.emplace(prepare_algebraic(library));
    MatchIndex index(state.pcg);
    found = matches_of(state, index, rules);
    return all_rewritings(index, library, rules, found);
  });
  auto apply_all = [&](const std::vector<std::size_t>& which) {
    parallel_for(which.size(), evaluator.threads(), [&](std::size_t i) {
      auto thread_timer = record.time(SearchLevel::substitution);
      Rewriting& r = all[which[i]];
      r.applied = true;
      if (evaluator.stopping()) {
        r.reached.why_not = LeftOut::interrupted;
        return;
      }
      auto rewritten = rewrite(state, r.move, *r.rule, *r.match);
      if (!rewritten.ok()) return;
      r.gain = std::llround(1e12 * (work_seconds(rewritten->pcg, device) - work));
      r.reached.state = std::move(*rewritten);
    });
  };
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (gains.try_emplace(all[i].place).second) unknown.push_back(i);
  apply_all(unknown);
  for (std::size_t i : unknown)
    if (all[i].reached.state) gains[all[i].place] = all[i].gain;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::optional<std::int64_t> gain = gains.at(all[i].place);
    if (!gain) continue;
    all[i].gain = *gain;
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return all[a].gain < all[b].gain; });

  // Those that do not apply here, though they do at a place alike, make room for the next.
  std::size_t kept = 0, next = 0;
  while (kept < kKept && next < order.size() && !evaluator.stopping()) {
    std::vector<std::size_t> some(
        order.begin() + static_cast<std::ptrdiff_t>(next),
        order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), next + kKept - kept)));
    next += some.size();
    std::vector<std::size_t> missing;
    std::copy_if(some.begin(), some.end(), std::back_inserter(missing), [&](std::size_t i) { return !all[i].applied; });
    apply_all(missing);
    kept += static_cast<std::size_t>(
        std::count_if(some.begin(), some.end(), [&](std::size_t i) { return all[i].reached.state.has_value(); }));
  }
  for (; next < order.size(); ++next) all[order[next]].reached = {{}, LeftOut::much_work};

  std::vector<Reached> reached;
  std::vector<bool> listed(all.size(), false);
  for (std::size_t i : order) reached.push_back(std::move(all[i].reached)), listed[i] = true;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!listed[i]) reached.push_back(std::move(all[i].reached));
  return reached;
}

std::vector<Rule> rules_of(const SearchOptions& options) {
  if (!options.algebra) return {};
  std::vector<Rule> rules = rule_library();
  rules.insert(rules.end(), options.rules.begin(), options.rules.end());
  return rules;
}

}  // namespace unity
