#include "core/search/substitution.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "core/base/parallel.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/match.h"
#include "core/rewrite/normalize.h"
#include "core/search/parallelism.h"
#include "core/search/pareto.h"
#include "core/search/work_estimate.h"

namespace unity {
namespace {

struct Open {
  std::int64_t cost;
  Hash hash;
  Found found;
  bool operator<(const Open& other) const { return cost != other.cost ? cost < other.cost : hash < other.hash; }
};

constexpr std::size_t kRewritingsKept = 8;  // of one state: those with the least work

// A state that a move leads to, or why there is none.
struct Reached {
  std::optional<State> state;
  LeftOut why_not = LeftOut::refused;
};

Result<State> rewrite(const State& state, const Move& move, const Rule& rule, const Match& match) {
  State next = state;
  next.pcg = normalize(UNITY_TRY(apply(state.pcg, rule, match, {})));
  next.steps.push_back({rule.name, state.pcg[match.root()].name, 0, 0});
  next.moves.push_back(move);
  return next;
}

// What the library's rules make of a state, those with the least work first, at most kRewritingsKept. A library knows
// many equations that only move work about; scoring all of them would leave no budget for anything else.
std::vector<Reached> rewritings(const State& state, const SubstitutionOptions& options, Evaluator& evaluator) {
  const DeviceSpec& device = evaluator.cost().topology().specs.at(0);
  struct Rewriting {
    Move move;
    const Rule* rule;
    Match match;
    Reached reached;
    double work = 0;
  };
  std::vector<Rewriting> all;
  const std::vector<Rule>& library = options.rules ? *options.rules : rule_library();
  evaluator.record().timed(SearchLevel::substitution, [&] {
    MatchIndex index(state.pcg);
    for (std::size_t r = 0; r < library.size(); ++r) {
      if (!library[r].algebraic()) continue;
      std::vector<Match> matches = find_matches(index, library[r]);
      for (std::size_t m = 0; m < matches.size(); ++m)
        all.push_back(
            {{Move::Kind::rule, static_cast<int>(r), static_cast<int>(m), 0}, &library[r], matches[m], {}, 0});
    }
  });
  parallel_for(all.size(), options.jobs, [&](std::size_t i) {
    auto thread_timer = evaluator.record().time(SearchLevel::substitution);
    if (evaluator.stopping()) {
      all[i].reached.why_not = LeftOut::interrupted;
      return;
    }
    auto rewritten = rewrite(state, all[i].move, *all[i].rule, all[i].match);
    if (!rewritten.ok()) return;
    all[i].work = work_seconds(rewritten->pcg, device);
    all[i].reached.state = std::move(*rewritten);
  });
  std::stable_sort(all.begin(), all.end(), [](const Rewriting& a, const Rewriting& b) { return a.work < b.work; });
  std::vector<Reached> reached;
  std::size_t kept = 0;
  for (Rewriting& r : all) {
    if (r.reached.state && kept++ >= kRewritingsKept) r.reached = {{}, LeftOut::much_work};
    reached.push_back(std::move(r.reached));
  }
  return reached;
}

void keep_pareto(std::vector<Found>& found, std::size_t keep) {
  keep_pareto_front(
      found, keep, [](const Found& f) { return f.candidate.score.iteration.count; },
      [](const Found& f) { return f.candidate.memory.persistent.count + f.candidate.memory.transient.count; });
}

}  // namespace

std::vector<Move> layout_moves(const Pcg& pcg, const std::vector<int>& degrees,
                               const std::vector<std::string>& parallelism, bool one_by_one) {
  std::vector<Move> moves;
  std::vector<AxisClass> classes = axis_classes(pcg);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (!parallelism.empty() && !is_allowed(kinds_of_class(pcg, classes, c), parallelism)) continue;
    for (int d : degrees) moves.push_back({Move::Kind::shard_class, static_cast<int>(c), 0, d});
    for (const AxisClassMember& m : classes[c].members)
      for (int d : one_by_one ? degrees : std::vector<int>{})
        for (Move::Kind kind : {Move::Kind::shard_one, Move::Kind::spread_one})
          moves.push_back({kind, static_cast<int>(m.node.value), m.axis, d});
  }
  for (int d : degrees) moves.push_back({Move::Kind::replicate_all, 0, 0, d});
  return moves;
}

std::vector<int> degrees_of_devices(int n) {
  std::vector<int> degrees;
  for (int d = 2; d <= n; ++d)
    if (n % d == 0) degrees.push_back(d);
  return degrees;
}

Result<State> apply_move(const State& state, const Move& move, const std::vector<Rule>& rules) {
  State next = state;
  switch (move.kind) {
    case Move::Kind::shard_class:
    case Move::Kind::shard_unevenly:
    case Move::Kind::fill_class: {
      std::vector<AxisClass> classes = axis_classes(state.pcg);
      if (move.index >= static_cast<int>(classes.size())) return fail("there is no axis class {}", move.index);
      AxisClass& members = classes[static_cast<std::size_t>(move.index)];
      if (move.kind == Move::Kind::fill_class) {
        // An operator that is computed as often redundantly has room, too.
        std::erase_if(members.members, [&](const AxisClassMember& m) {
          Sharding s = node_sharding(state.pcg, m.node);
          return s.copies % move.degree != 0 && s.tasks() * move.degree > move.match;
        });
        if (members.members.empty()) return fail("no member of axis class {} has room", move.index);
      }
      std::vector<DerivationEvent> log;
      next.pcg = UNITY_TRY(shard_class(state.pcg, members, move.degree, &log, move.kind == Move::Kind::shard_unevenly));
      for (const DerivationEvent& e : log) next.steps.push_back({e.rule, e.where, e.degree, 0});
      break;
    }
    case Move::Kind::shard_one:
    case Move::Kind::spread_one: {
      NodeId node(move.index);
      if (node.index() >= state.pcg.size() || !state.pcg[node].is_compute())
        return fail("node {} is no operator", move.index);
      const Node& n = state.pcg[node];
      bool shard = move.kind == Move::Kind::shard_one;
      next.pcg = shard ? UNITY_TRY(apply_shard(state.pcg, node, move.match, move.degree))
                       : UNITY_TRY(apply_spread(state.pcg, node, move.match, move.degree));
      next.steps.push_back(
          {shard ? shard_rule_name(n, move.match) : spread_rule_name(n, move.match), n.name, move.degree, 0});
      break;
    }
    case Move::Kind::replicate_all: {
      std::vector<DerivationEvent> log;
      next.pcg = UNITY_TRY(apply_replicate_everywhere(state.pcg, move.degree, &log));
      for (const DerivationEvent& e : log) next.steps.push_back({e.rule, e.where, e.degree, 0});
      break;
    }
    case Move::Kind::rule: {
      const Rule& rule = rules.at(static_cast<std::size_t>(move.index));
      std::vector<Match> matches = find_matches(state.pcg, rule);
      if (move.match >= static_cast<int>(matches.size())) return fail("rule {} has no match {}", rule.name, move.match);
      return rewrite(state, move, rule, matches[static_cast<std::size_t>(move.match)]);
    }
  }
  next.moves.push_back(move);
  return next;
}

int most_tasks(const Pcg& pcg) {
  int most = 1;
  for (const Node& n : pcg.nodes())
    for (const ParallelShape& s : n.outputs)
      if (!n.is_parallelization()) most = std::max(most, s.parts());
  return most;
}

SubstitutionResult substitute(const std::vector<State>& start, Evaluator& evaluator,
                              const SubstitutionOptions& options) {
  SubstitutionResult result;
  SearchRecorder& record = evaluator.record();
  std::set<Open> open;
  std::set<Hash> seen;
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), best_path = 0;
  double alpha = options.alpha;
  int scored = 0, rewritten = 0;
  // Scores what is new among the states, in their order as far as the budget goes, and merges the results in that
  // order: the same with any number of threads.
  auto consider = [&](std::vector<Reached> states) {
    std::vector<State> fresh;
    std::vector<Hash> hashes;
    for (Reached& reached : states) {
      if (!reached.state) {
        record.left_out(reached.why_not);
        continue;
      }
      if (scored + static_cast<int>(fresh.size()) >= options.budget) {
        record.left_out(LeftOut::over_budget);
        continue;
      }
      Hash hash = record.timed(SearchLevel::substitution, [&] { return canonical_hash(reached.state->pcg); });
      if (!seen.insert(hash).second) {
        record.left_out(LeftOut::duplicate);
        continue;
      }
      hashes.push_back(hash);
      fresh.push_back(std::move(*reached.state));
    }
    std::int64_t number = evaluator.scored();
    std::vector<std::optional<Candidate>> candidates(fresh.size());
    std::vector<std::int64_t> paths(fresh.size());
    std::vector<char> too_long(fresh.size());
    parallel_for(fresh.size(), options.jobs, [&](std::size_t i) {
      paths[i] =
          record.timed(SearchLevel::substitution, [&] { return path_time(fresh[i].pcg, evaluator.cost()); }).count;
      // Where times are measured, paths may take less than guessed, that of the best graph, too.
      too_long[i] = !options.thorough && best_path > 0 &&
                    static_cast<double>(paths[i]) > alpha * static_cast<double>(std::max(best, best_path));
      if (too_long[i]) return;
      auto candidate = options.one_device ? evaluator.evaluate(fresh[i].pcg, natural_mappings(fresh[i].pcg))
                                          : evaluator.evaluate(fresh[i].pcg);
      if (!candidate.ok()) return;
      candidate->pcg = Pcg();  // the state holds it
      candidates[i] = std::move(*candidate);
    });
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      if (too_long[i]) {
        record.left_out(LeftOut::long_path);
        continue;
      }
      ++scored;
      if (!candidates[i]) continue;
      std::int64_t cost = candidates[i]->score.iteration.count;
      if (options.whole) evaluator.found(candidates[i]->score, ++number);
      Found found{std::move(fresh[i]), std::move(*candidates[i])};
      result.found.push_back(found);
      if (options.thorough || static_cast<double>(cost) <= alpha * static_cast<double>(best))
        open.insert({cost, hashes[i], std::move(found)});
      else
        record.left_out(LeftOut::above_alpha);
      if (cost < best) best = cost, best_path = paths[i];
    }
    if (!options.thorough && result.found.size() > 64 * options.keep) keep_pareto(result.found, 16 * options.keep);
  };
  auto is_expanded = [&](std::int64_t cost) { return static_cast<double>(cost) <= alpha * static_cast<double>(best); };
  std::vector<Reached> given;
  for (const State& state : start) given.push_back({state});
  consider(std::move(given));
  result.stopped_because =
      options.thorough ? "exhausted: no open candidate" : "exhausted: no open candidate within alpha of the best";
  while (!open.empty() && (options.thorough || is_expanded(open.begin()->cost)) && !evaluator.stopping()) {
    Open next = std::move(open.extract(open.begin()).value());
    if (!is_expanded(next.cost)) alpha = static_cast<double>(next.cost) / static_cast<double>(best);
    std::vector<int> degrees = degrees_of_devices(options.devices);
    std::vector<Move> moves = record.timed(SearchLevel::substitution, [&] {
      return layout_moves(next.found.state.pcg, degrees, options.parallelism, options.thorough);
    });
    if (!options.parallelism.empty())
      record.left_out(LeftOut::not_allowed,
                      static_cast<std::int64_t>(
                          layout_moves(next.found.state.pcg, degrees, {}, options.thorough).size() - moves.size()));
    std::vector<Reached> states(moves.size());
    parallel_for(moves.size(), options.jobs, [&](std::size_t i) {
      auto timer = record.time(SearchLevel::substitution);
      if (evaluator.stopping()) {
        states[i].why_not = LeftOut::interrupted;
        return;
      }
      auto moved = apply_move(next.found.state, moves[i]);
      if (!moved.ok()) return;
      if (most_tasks(moved->pcg) > options.devices)
        states[i].why_not = LeftOut::too_many_tasks;
      else
        states[i].state = std::move(*moved);
    });
    consider(std::move(states));
    if (rewritten < options.budget / options.rewriting_share) {
      int before = scored;
      consider(rewritings(next.found.state, options, evaluator));
      rewritten += scored - before;
    }
    if (scored >= options.budget) {
      result.stopped_because = fmt::format("budget of {} candidates", options.budget);
      break;
    }
  }
  record.left_out(LeftOut::above_alpha,
                  std::count_if(open.begin(), open.end(), [&](const Open& o) { return !is_expanded(o.cost); }));
  std::vector<Found> fastest;
  if (options.thorough) {
    std::stable_sort(result.found.begin(), result.found.end(), [](const Found& a, const Found& b) {
      return a.candidate.score.iteration < b.candidate.score.iteration;
    });
    // Mappings that are found later may make any degree of parallelism the best one.
    std::map<int, std::size_t> kept;
    for (const Found& f : result.found)
      if (kept[most_tasks(f.state.pcg)]++ < options.keep) fastest.push_back(f);
  }
  keep_pareto(result.found, options.keep);
  result.found.insert(result.found.begin(), fastest.begin(), fastest.end());
  for (Found& f : result.found) f.candidate.pcg = f.state.pcg;
  return result;
}

}  // namespace unity
