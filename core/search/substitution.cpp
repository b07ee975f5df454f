#include "core/search/substitution.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/derive.h"
#include "core/search/parallelism.h"
#include "core/search/pareto.h"
#include "core/search/rewritings.h"
#include "core/search/work_estimate.h"

namespace unity {
namespace {

struct Open {
  std::int64_t cost;
  Hash hash;
  Found found;
  bool operator<(const Open& other) const { return cost != other.cost ? cost < other.cost : hash < other.hash; }
};

constexpr double kGain = 0.002;            // of the best time: less is no progress
constexpr std::size_t kLoweredAtOnce = 2;  // where the estimate of the best one may rule out the others
constexpr std::size_t kMostMatchesKept = 20'000, kMostNodesKept = 2'000'000;
constexpr std::size_t kScoredAtOnce = 8;  // where patience may end the search in between

void keep_pareto(std::vector<Found>& found, std::size_t keep) {
  keep_pareto_front(
      found, keep, [](const Found& f) { return f.candidate.score.iteration.count; },
      [](const Found& f) { return f.candidate.memory.persistent.count + f.candidate.memory.transient.count; });
}

}  // namespace

std::vector<Move> layout_moves(const Pcg& pcg, const std::vector<int>& degrees,
                               const std::vector<std::string>& parallelism, bool one_by_one) {
  return layout_moves(pcg, axis_classes(pcg), degrees, parallelism, one_by_one);
}

std::vector<Move> layout_moves(const Pcg& pcg, const std::vector<AxisClass>& classes, const std::vector<int>& degrees,
                               const std::vector<std::string>& parallelism, bool one_by_one) {
  std::vector<Move> moves;
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
  bool of_class = move.kind == Move::Kind::shard_class || move.kind == Move::Kind::shard_unevenly ||
                  move.kind == Move::Kind::fill_class;
  return apply_move(state, move, of_class ? axis_classes(state.pcg) : std::vector<AxisClass>(), rules);
}

Result<State> apply_move(const State& state, const Move& move, const std::vector<AxisClass>& classes,
                         const std::vector<Rule>& rules) {
  State next{{}, state.moves, state.steps};
  switch (move.kind) {
    case Move::Kind::shard_class:
    case Move::Kind::shard_unevenly:
    case Move::Kind::fill_class: {
      if (move.index >= static_cast<int>(classes.size())) return fail("there is no axis class {}", move.index);
      AxisClass members = classes[static_cast<std::size_t>(move.index)];
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

bool has_no_room(const Pcg& pcg, const std::vector<AxisClass>& classes, const Move& move, int devices) {
  if (move.kind == Move::Kind::shard_one) return node_sharding(pcg, NodeId(move.index)).tasks() * move.degree > devices;
  if (move.kind != Move::Kind::shard_class) return false;
  const std::vector<AxisClassMember>& members = classes[static_cast<std::size_t>(move.index)].members;
  return std::any_of(members.begin(), members.end(), [&](const AxisClassMember& m) {
    Sharding s = node_sharding(pcg, m.node);
    return s.copies % move.degree != 0 && s.tasks() * move.degree > devices;
  });
}

Result<State> apply_evenly_or_not(const State& state, Move move, const std::vector<AxisClass>& classes,
                                  const std::vector<Rule>& rules, bool uneven) {
  Result<State> moved = apply_move(state, move, classes, rules);
  if (!uneven || moved.ok() || move.kind != Move::Kind::shard_class) return moved;
  move.kind = Move::Kind::shard_unevenly;
  return apply_move(state, move, classes, rules);
}

bool is_rewritten(const std::vector<Move>& moves) {
  return std::any_of(moves.begin(), moves.end(), [](const Move& m) { return m.kind == Move::Kind::rule; });
}

std::ptrdiff_t compute_operators(const Pcg& pcg) {
  return std::count_if(pcg.nodes().begin(), pcg.nodes().end(), [](const Node& n) { return n.is_compute(); });
}

int most_tasks(const Pcg& pcg) {
  int most = 1;
  for (const Node& n : pcg.nodes())
    for (const ParallelShape& s : n.outputs)
      if (!n.is_parallelization()) most = std::max(most, s.parts());
  return most;
}

namespace {

// One that was not seen before.
struct Fresh {
  State state;
  Hash hash = 0;
  std::int64_t path = 0;
  bool too_long = false;  // the path
  std::optional<MappingResult> mapping;
  std::optional<Candidate> candidate;
};

class BestFirst {
 public:
  BestFirst(Evaluator& evaluator, const SubstitutionOptions& options)
      : evaluator_(evaluator), record_(evaluator.record()), options_(options), alpha_(options.alpha) {}

  SubstitutionResult run(const std::vector<State>& start);

 private:
  void consider(std::vector<Reached> states);
  void score(std::span<Fresh> states);
  void score_mapped(std::span<Fresh> states);
  void expand(State from);
  bool finished();
  bool without_gain() const { return options_.patience > 0 && since_ >= options_.patience; }
  void say_queue(std::size_t to_score);
  bool is_expanded(std::int64_t cost) const { return static_cast<double>(cost) <= alpha_ * static_cast<double>(best_); }
  void keep_fastest();

  Evaluator& evaluator_;
  SearchRecorder& record_;
  SearchRecorder::Queue queue_{record_};
  const SubstitutionOptions& options_;
  SubstitutionResult result_;
  std::set<Open> open_;
  std::set<Hash> seen_;
  RewritingGains gains_;
  std::int64_t best_ = std::numeric_limits<std::int64_t>::max(), best_path_ = 0, best_estimate_ = 0;
  std::int64_t plain_ = best_;  // the best time without rewritings
  // Rewritings gain little each. Shardings alone say whether there is progress; without any, rewritings end first.
  std::int64_t gained_ = best_;          // the best time when last there was some
  int since_ = 0, shardings_since_ = 0;  // scored since then
  bool rewritings_ = false;              // what is scored now
  double alpha_;
  int scored_ = 0, rewritten_ = 0, grown_ = 0;
  bool some_grown_left_ = false;  // graphs of more operators than the model, of which there may be no end
  std::ptrdiff_t operators_ = 0;  // of the start
};

void BestFirst::say_queue(std::size_t to_score) {
  queue_.say({static_cast<std::int64_t>(to_score),
              std::count_if(open_.begin(), open_.end(), [&](const Open& o) { return is_expanded(o.cost); })});
}

// Scores what is new among the states, in their order as far as the budget goes, and merges the results in that order:
// the same with any number of threads.
void BestFirst::consider(std::vector<Reached> states) {
  std::vector<Fresh> fresh;
  for (Reached& reached : states) {
    if (!reached.state) {
      record_.left_out(reached.why_not);
      continue;
    }
    bool grown = (options_.thorough || !options_.growth) && compute_operators(reached.state->pcg) > operators_;
    if (grown && !options_.growth) {
      record_.left_out(LeftOut::not_allowed);
      continue;
    }
    if (grown ? grown_ >= options_.budget / options_.rewriting_share
              : scored_ + static_cast<int>(fresh.size()) - grown_ >= options_.budget) {
      some_grown_left_ = some_grown_left_ || grown;
      record_.left_out(LeftOut::over_budget);
      continue;
    }
    Hash hash = record_.timed(SearchLevel::substitution, [&] { return canonical_hash(reached.state->pcg); });
    if (!seen_.insert(hash).second) {
      record_.left_out(LeftOut::duplicate);
      continue;
    }
    grown_ += grown;
    fresh.push_back({std::move(*reached.state), hash});
  }
  std::size_t at_once = options_.patience > 0 ? kScoredAtOnce : std::max<std::size_t>(1, fresh.size());
  for (std::size_t begin = 0; begin < fresh.size(); begin += at_once) {
    std::size_t end = std::min(fresh.size(), begin + at_once);
    if (begin > 0 && (finished() || (rewritings_ && without_gain()))) {
      record_.left_out(LeftOut::given_up, static_cast<std::int64_t>(fresh.size() - begin));
      break;
    }
    say_queue(fresh.size() - begin);
    score(std::span(fresh).subspan(begin, end - begin));
  }
  say_queue(0);
  const bool large = result_.found.size() > 16 * options_.keep &&
                     result_.found.size() * result_.found.back().state.pcg.size() > kMostNodesKept;
  if (!options_.thorough && (large || result_.found.size() > 64 * options_.keep))
    keep_pareto(result_.found, 16 * options_.keep);
}

void BestFirst::score(std::span<Fresh> states) {
  std::int64_t number = evaluator_.scored();
  parallel_for(states.size(), evaluator_.threads(), [&](std::size_t i) {
    Fresh& s = states[i];
    const Pcg& pcg = s.state.pcg;
    s.path = record_.timed(SearchLevel::substitution, [&] { return path_time(pcg, evaluator_.cost()); }).count;
    // Where times are measured, paths may take less than guessed, that of the best graph, too.
    s.too_long = !options_.thorough && best_path_ > 0 &&
                 static_cast<double>(s.path) > alpha_ * static_cast<double>(std::max(best_, best_path_));
    if (s.too_long) return;
    if (options_.part) {
      Result<MappingResult> mapping =
          options_.one_device ? MappingResult{natural_mappings(pcg), {}} : evaluator_.map(pcg);
      if (mapping.ok()) s.mapping = std::move(*mapping);
    } else {
      // On many devices, of whole graphs as of parts, what a few do not tell takes too long.
      auto candidate = options_.one_device ? evaluator_.evaluate(pcg, natural_mappings(pcg))
                       : options_.whole    ? evaluator_.evaluate_part(pcg, {})
                                           : evaluator_.evaluate(pcg);
      if (candidate.ok()) s.candidate = std::move(*candidate);
    }
  });
  if (options_.part) score_mapped(states);
  for (Fresh& s : states) {
    if (s.too_long) {
      record_.left_out(LeftOut::long_path);
      continue;
    }
    ++scored_, ++since_, shardings_since_ += rewritings_ ? 0 : 1;
    if (!s.candidate) continue;
    s.candidate->pcg = Pcg();  // the state holds it
    std::int64_t cost = s.candidate->score.iteration.count;
    if (options_.whole) evaluator_.found(s.candidate->score, ++number);
    if (cost < best_) best_ = cost, best_path_ = s.path, best_estimate_ = s.candidate->estimate.count;
    if (static_cast<double>(best_) < (1 - kGain) * static_cast<double>(gained_))
      gained_ = best_, since_ = shardings_since_ = 0;
    std::shared_ptr<const MatchedGraph> from = std::move(s.state.from);  // of use to what is open alone
    result_.found.push_back({std::move(s.state), std::move(*s.candidate)});
    if (cost < plain_ && !is_rewritten(result_.found.back().state.moves))
      plain_ = cost, result_.plain = result_.found.back();
    if (options_.thorough || is_expanded(cost)) {
      Open open{cost, s.hash, result_.found.back()};
      open.found.state.from = std::move(from);
      open_.insert(std::move(open));
    } else {
      record_.left_out(LeftOut::above_alpha);
    }
  }
}

// In the order of the mapping search's estimates, as long as these are not far above that of the best one.
void BestFirst::score_mapped(std::span<Fresh> states) {
  std::vector<Fresh*> order;
  for (Fresh& s : states)
    if (s.mapping) order.push_back(&s);
  std::stable_sort(order.begin(), order.end(),
                   [](const Fresh* a, const Fresh* b) { return a->mapping->estimate < b->mapping->estimate; });
  const std::size_t at_once = options_.far_above > 0 ? kLoweredAtOnce : std::max<std::size_t>(1, order.size());
  std::int64_t best = best_, estimate = best_estimate_;
  for (std::size_t begin = 0; begin < order.size(); begin += at_once) {
    if (options_.far_above > 0 && estimate > 0 &&
        static_cast<double>(order[begin]->mapping->estimate.count) >
            options_.far_above * static_cast<double>(estimate)) {
      record_.left_out(LeftOut::slow_estimate, std::ssize(order) - static_cast<std::int64_t>(begin));
      return;
    }
    std::size_t end = std::min(order.size(), begin + at_once);
    parallel_for(end - begin, evaluator_.threads(), [&](std::size_t i) {
      Fresh& s = *order[begin + i];
      auto candidate = evaluator_.evaluate_part(s.state.pcg, std::move(*s.mapping), options_.bucket);
      if (candidate.ok()) s.candidate = std::move(*candidate);
    });
    for (std::size_t i = begin; i < end; ++i)
      if (const auto& c = order[i]->candidate; c && c->score.iteration.count < best)
        best = c->score.iteration.count, estimate = c->estimate.count;
  }
}

// Whether nothing more is to be expected, or worth it.
bool BestFirst::finished() {
  if (options_.patience == 0) return false;
  if (options_.limit.count > 0 && scored_ >= options_.few && best_ > options_.limit.count)
    result_.stopped_because = "no graph as a whole was nearly as fast as other plans";
  else if (shardings_since_ >= options_.patience)
    result_.stopped_because = fmt::format("no progress in {} candidates", since_);
  else
    return false;
  return true;
}

void BestFirst::expand(State from) {
  std::vector<int> degrees = degrees_of_devices(options_.devices);
  std::vector<AxisClass> classes;
  std::vector<Move> moves = record_.timed(SearchLevel::substitution, [&] {
    classes = axis_classes(from.pcg);
    return layout_moves(from.pcg, classes, degrees, options_.parallelism, options_.thorough);
  });
  if (!options_.parallelism.empty())
    record_.left_out(LeftOut::not_allowed,
                     static_cast<std::int64_t>(layout_moves(from.pcg, classes, degrees, {}, options_.thorough).size() -
                                               moves.size()));
  std::vector<Reached> states(moves.size());
  parallel_for(moves.size(), evaluator_.threads(), [&](std::size_t i) {
    auto timer = record_.time(SearchLevel::substitution);
    if (evaluator_.stopping()) {
      states[i].why_not = LeftOut::interrupted;
      return;
    }
    if (has_no_room(from.pcg, classes, moves[i], options_.devices)) {
      states[i].why_not = LeftOut::too_many_tasks;
      return;
    }
    auto moved = apply_evenly_or_not(from, moves[i], classes, rule_library(), options_.thorough && options_.uneven);
    if (!moved.ok()) return;
    if (most_tasks(moved->pcg) > options_.devices)
      states[i].why_not = LeftOut::too_many_tasks;
    else
      states[i].state = std::move(*moved);
  });
  // What is known of this graph is of use to the states that it leads to; filled in below.
  std::shared_ptr<MatchedGraph> matched = options_.incremental_matching ? std::make_shared<MatchedGraph>() : nullptr;
  auto lead_on = [&](std::vector<Reached> reached) {
    for (Reached& r : reached)
      if (r.state) r.state->from = matched;
    consider(std::move(reached));
  };
  lead_on(std::move(states));
  if (!options_.thorough && rewritten_ >= options_.budget / options_.rewriting_share) return;
  if (without_gain() || finished()) return;
  int before = scored_;
  rewritings_ = true;
  lead_on(rewritings(from, options_, evaluator_, options_.gains ? *options_.gains : gains_,
                     matched ? &matched->matches : nullptr));
  rewritings_ = false;
  rewritten_ += scored_ - before;
  // Many operators that read the same have matches by pairs, which open states would hold for long.
  if (matched && matched->matches.all.size() > kMostMatchesKept)
    matched->matches = {};
  else if (matched)
    matched->pcg = std::move(from.pcg);
}

void BestFirst::keep_fastest() {
  std::vector<Found> fastest;
  if (options_.thorough) {
    std::stable_sort(result_.found.begin(), result_.found.end(), [](const Found& a, const Found& b) {
      return a.candidate.score.iteration < b.candidate.score.iteration;
    });
    // Mappings that are found later may make any degree of parallelism the best one.
    std::map<int, std::size_t> kept;
    for (const Found& f : result_.found)
      if (kept[most_tasks(f.state.pcg)]++ < options_.keep) fastest.push_back(f);
  }
  keep_pareto(result_.found, options_.keep);
  result_.found.insert(result_.found.begin(), fastest.begin(), fastest.end());
  for (Found& f : result_.found) f.candidate.pcg = f.state.pcg;
  if (result_.plain) result_.plain->candidate.pcg = result_.plain->state.pcg;
}

SubstitutionResult BestFirst::run(const std::vector<State>& start) {
  result_.stopped_because =
      options_.thorough ? "exhausted: no open candidate" : "exhausted: no open candidate within alpha of the best";
  std::vector<Reached> given;
  for (const State& state : start) {
    given.push_back({state});
    operators_ = std::max(operators_, compute_operators(state.pcg));
  }
  consider(std::move(given));
  while (!open_.empty() && (options_.thorough || is_expanded(open_.begin()->cost)) && !evaluator_.stopping() &&
         !finished()) {
    Open next = std::move(open_.extract(open_.begin()).value());
    if (!is_expanded(next.cost)) alpha_ = static_cast<double>(next.cost) / static_cast<double>(best_);
    expand(std::move(next.found.state));
    if (scored_ - grown_ >= options_.budget) {
      result_.stopped_because = fmt::format("budget of {} candidates", options_.budget);
      result_.out_of_budget = true;
      break;
    }
  }
  if (some_grown_left_ && result_.stopped_because.starts_with("exhausted"))
    result_.stopped_because += fmt::format(" but of graphs with more operators than the model: their budget of {}",
                                           options_.budget / options_.rewriting_share);
  record_.left_out(LeftOut::above_alpha,
                   std::count_if(open_.begin(), open_.end(), [&](const Open& o) { return !is_expanded(o.cost); }));
  keep_fastest();
  return std::move(result_);
}

}  // namespace

SubstitutionResult substitute(const std::vector<State>& start, Evaluator& evaluator,
                              const SubstitutionOptions& options) {
  return BestFirst(evaluator, options).run(start);
}

}  // namespace unity
