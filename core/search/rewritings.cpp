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
  Match match;
  Hash place;
  Reached reached;
  bool applied = false;
  std::int64_t gain = 0;
};

// What a rule finds at a match, up to names: operators, and whether values are the same or used elsewhere.
Hash hash_place(const MatchIndex& index, const Move& move, const Match& match) {
  const Pcg& pcg = index.pcg;
  Hash hash = mix(static_cast<Hash>(move.index));
  auto add_node = [&](NodeId id) {
    const Node& n = pcg[id];
    hash = combine(hash, combine(hash_text(n.op->name()), hash_attributes(n.attributes)));
    for (const ParallelShape& s : n.outputs) hash = combine(hash, hash_shape(s));
    hash = combine(hash, index.uses[id.index()].size());
  };
  for (NodeId id : match.nodes) {
    add_node(id);
    for (ValueRef v : pcg[id].inputs) hash = combine(hash, hash_shape(pcg.shape(v)));
  }
  for (std::size_t v = 0; v < match.values.size(); ++v) {
    auto first = std::find(match.values.begin(), match.values.end(), match.values[v]);
    hash = combine(hash, static_cast<Hash>(first - match.values.begin()));
    if (!match.values[v].node.valid()) continue;
    hash = combine(hash, static_cast<Hash>(match.values[v].output));
    add_node(match.values[v].node);
  }
  return hash;
}

std::vector<Rewriting> all_matches(const Pcg& pcg, const std::vector<Rule>& library) {
  std::vector<Rewriting> all;
  MatchIndex index(pcg);
  for (std::size_t r = 0; r < library.size(); ++r) {
    if (!library[r].algebraic()) continue;
    std::vector<Match> matches = find_matches(index, library[r]);
    for (std::size_t m = 0; m < matches.size(); ++m) {
      Move move{Move::Kind::rule, static_cast<int>(r), static_cast<int>(m), 0};
      Hash place = hash_place(index, move, matches[m]);
      all.push_back({move, &library[r], std::move(matches[m]), place, {}});
    }
  }
  return all;
}

}  // namespace

Result<State> rewrite(const State& state, const Move& move, const Rule& rule, const Match& match) {
  State next{{}, state.moves, state.steps};
  next.pcg = normalize(UNITY_TRY(apply(state.pcg, rule, match, {})));
  next.steps.push_back({rule.name, state.pcg[match.root()].name, 0, 0});
  next.moves.push_back(move);
  return next;
}

std::vector<Reached> rewritings(const State& state, const SubstitutionOptions& options, Evaluator& evaluator,
                                RewritingGains& gains) {
  const DeviceSpec& device = evaluator.cost().topology().specs.at(0);
  SearchRecorder& record = evaluator.record();
  double work = 0;
  std::vector<Rewriting> all = record.timed(SearchLevel::substitution, [&] {
    work = work_seconds(state.pcg, device);
    return all_matches(state.pcg, options.rules ? *options.rules : rule_library());
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
      auto rewritten = rewrite(state, r.move, *r.rule, r.match);
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

}  // namespace unity
