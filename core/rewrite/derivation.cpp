#include "core/rewrite/derivation.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "core/rewrite/term_rewrites.h"

namespace unity {

namespace {
using Values = std::vector<ValueRef>;
}  // namespace

class DerivationSearch::Impl {
 public:
  Impl(std::span<const Rule> rules, DerivationOptions options)
      : options_(std::move(options)), rules_(rules.begin(), rules.end()) {
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      bool both = add(forward(rules_[r], r));
      both = add(backward(rules_[r], r)) && both;
      if (!both) one_way_.insert(r);
    }
  }

  Derivation derive(Result<Values> from, Result<Values> to, int steps) {
    Derivation result;
    if (!from.ok() || !to.ok()) {
      result.outcome = Derivation::Outcome::gave_up;
      result.why = (from.ok() ? to : from).error().message;
      return result;
    }
    if (shapes(*from) != shapes(*to)) return result;
    Candidates candidates = candidates_of(*from, *to);
    limit_ = std::max(terms_.reach(*from).size(), terms_.reach(*to).size()) + static_cast<std::size_t>(options_.growth);
    Side sides[2] = {Side(number(*from)), Side(number(*to))};
    Meeting best;
    if (sides[0].end == sides[1].end) best = {sides[0].end, 0};
    // Most rules can be used in both directions: paths of t steps are then found by (t + 1) / 2 steps from each end.
    // Those that can not are followed further.
    for (int t = 1; t <= steps && best.steps > t - 1; ++t)
      for (int side : {0, 1}) {
        int half = (t + 1) / 2;
        if (sides[side].depth < half) expand(sides, side, t, false, candidates, best);
        while (sides[side].furthest < t) expand(sides, side, t, true, candidates, best);
        result.states = sides[0].reached.size() + sides[1].reached.size();
        if (best.steps > t && result.states > options_.states) {
          result.outcome = Derivation::Outcome::gave_up;
          result.why = fmt::format("more than {} graphs within {} of {} steps", options_.states, t, steps);
          return result;
        }
      }
    if (best.steps > steps) return result;
    result.outcome = Derivation::Outcome::found;
    for (int at = best.state; at != sides[0].end; at = sides[0].reached.at(at).from)
      result.steps.push_back(step_of(sides[0].reached.at(at).rewrite, at, false));
    std::reverse(result.steps.begin(), result.steps.end());
    for (int at = best.state; at != sides[1].end; at = sides[1].reached.at(at).from)
      result.steps.push_back(step_of(sides[1].reached.at(at).rewrite, sides[1].reached.at(at).from, true));
    return result;
  }

  Derivation derive(const Pcg& from, const Pcg& to, int steps) {
    renew();
    return derive(terms_.import(from), terms_.import(to), steps);
  }

  Derivation derive(const RuleInstance& instance, int steps) {
    renew();
    return derive(terms_.import(instance.source, instance.variables),
                  terms_.import(instance.target, instance.variables), steps);
  }

  int state(Result<Values> values) { return values.ok() ? number(*values) : -1; }
  int state(const Pcg& pcg) { return state(terms_.import(pcg)); }
  int state(const Pcg& side, const std::vector<ParallelShape>& variables) {
    return state(terms_.import(side, variables));
  }

  std::vector<Neighbour> neighbours(int state) {
    Values values = states_.at(static_cast<std::size_t>(state));
    limit_ = terms_.reach(values).size() + static_cast<std::size_t>(options_.growth);
    std::vector<Neighbour> result;
    std::set<int> seen = {state};
    for (const Edge& edge : edges(state, candidates_of(values, values), false)) {
      const DirectedRule& rule = *edge.rewrite->rule;
      if (seen.insert(edge.to).second) result.push_back({edge.to, rule.index, rule.backward});
    }
    return result;
  }

  Pcg graph(int state) const { return terms_.graph(states_.at(static_cast<std::size_t>(state))); }
  const std::vector<Rule>& rules() const { return rules_; }

 private:
  using RewriteRef = std::shared_ptr<const Rewrite>;
  struct Edge {
    int to = -1;
    RewriteRef rewrite;
  };
  struct Arrival {
    int depth = 0;
    int from = -1;
    RewriteRef rewrite;
  };
  // What is reached from one end.
  struct Side {
    explicit Side(int from) : end(from), reached{{from, {}}}, frontier{from}, last{from} {}
    int end = -1;
    std::map<int, Arrival> reached;
    int depth = 0;              // all graphs within so many steps are reached
    int furthest = 0;           // some are this far away
    std::vector<int> frontier;  // those that are exactly so far away
    std::vector<int> last;      // those that were reached last, by rules that are used in one direction
  };
  struct Meeting {
    int state = -1;
    int steps = std::numeric_limits<int>::max();
  };

  // One step further from one end: by all rules from the frontier, or by the rules of one direction from the graphs
  // that were reached last. Stops at a path of t steps, for shorter ones are known not to exist.
  void expand(Side (&sides)[2], int which, int t, bool one_way, const Candidates& candidates, Meeting& best) {
    Side &side = sides[which], &other = sides[1 - which];
    std::vector<int> from = std::move(one_way ? side.last : side.frontier), next;
    int depth = side.furthest = one_way ? side.furthest + 1 : ++side.depth;
    for (int state : from) {
      if (sides[0].reached.size() + sides[1].reached.size() > options_.states) break;
      for (Edge& edge : edges(state, candidates, one_way)) {
        auto [known, added] = side.reached.emplace(edge.to, Arrival{depth, state, edge.rewrite});
        if (!added && known->second.depth < depth) continue;
        if (added || known->second.depth > depth) known->second = {depth, state, edge.rewrite};
        next.push_back(edge.to);
        auto met = other.reached.find(edge.to);
        if (met == other.reached.end() || depth + met->second.depth >= best.steps) continue;
        best = {edge.to, depth + met->second.depth};
        if (best.steps <= t) return;
      }
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    if (!one_way) side.frontier = next;
    side.last = std::move(next);
  }

  static constexpr std::size_t kMostTerms = 300000;

  // Whether the rule can be used so.
  bool add(std::optional<DirectedRule> directed) {
    if (!directed) return false;
    const std::vector<PatternValue>& outputs = directed->rule.source_outputs;
    std::size_t index = directed_.size();
    bool introduces = directed->introduces();
    if (introduces && options_.introduce) {
      introducing_.push_back(index);
    } else if (std::any_of(outputs.begin(), outputs.end(), [](PatternValue v) { return v.variable >= 0; })) {
      return false;
    } else {
      const Operator* op = directed->rule.nodes[static_cast<std::size_t>(outputs[0].node)].op;
      bool alone =
          std::all_of(outputs.begin(), outputs.end(), [&](PatternValue v) { return v.node == outputs[0].node; });
      (alone ? alone_ : together_)[op].push_back(index);
    }
    directed_.push_back(std::move(*directed));
    return true;
  }

  // Forgets what was learnt once it fills much memory.
  void renew() {
    if (terms_.size() < kMostTerms) return;
    terms_ = SharedTerms();
    states_.clear();
    numbers_.clear();
    rewrites_.clear();
  }

  int number(const Values& values) {
    auto [found, added] = numbers_.emplace(values, static_cast<int>(states_.size()));
    if (added) states_.push_back(values);
    return found->second;
  }

  std::vector<ParallelShape> shapes(const Values& values) const {
    std::vector<ParallelShape> result;
    for (ValueRef v : values) result.push_back(terms_.shape(v));
    return result;
  }

  // Degrees that occur, their products as far as these are not larger than all of them together, their quotients.
  Candidates candidates_of(const Values& from, const Values& to) const {
    std::set<std::int64_t> degrees, numbers(options_.candidates.begin(), options_.candidates.end());
    std::int64_t largest = 1;
    std::size_t rank = 0;
    for (const Values* end : {&from, &to}) {
      Values all = *end;
      for (NodeId id : terms_.reach(*end)) {
        const Node& node = terms_.pcg()[id];
        for (std::size_t o = 0; o < node.outputs.size(); ++o) all.push_back({id, static_cast<int>(o)});
        all.insert(all.end(), node.inputs.begin(), node.inputs.end());
        for (const AttributeValue& value : node.attributes)
          if (const auto* integer = std::get_if<std::int64_t>(&value)) numbers.insert(*integer);
        if (node.is_parallelization() && !node.attributes.empty())
          degrees.insert(std::get<std::int64_t>(node.attributes.back()));
      }
      for (ValueRef v : all) {
        const ParallelShape& shape = terms_.shape(v);
        for (const ParallelDim& dim : shape.dims) degrees.insert({dim.degree, dim.micro});
        degrees.insert({shape.copies, shape.partials});
        largest = std::max<std::int64_t>(largest, shape.parts());
        rank = std::max(rank, shape.dims.size());
      }
    }
    for (std::int64_t candidate : options_.candidates) degrees.insert(candidate);
    Candidates result;
    std::set<std::int64_t> known = degrees;
    for (std::int64_t a : known)
      for (std::int64_t b : known) {
        if (a * b <= largest) degrees.insert(a * b);
        if (a % b == 0) degrees.insert(a / b);
      }
    for (std::int64_t degree : degrees)
      if (degree > 1) result.degrees.push_back(degree);
    for (std::size_t i = 0; i < rank; ++i) result.dimensions.push_back(static_cast<std::int64_t>(i));
    numbers.insert(degrees.begin(), degrees.end());
    result.numbers.assign(numbers.begin(), numbers.end());
    return result;
  }

  // The rewrites of rules whose source has its outputs at one node, once for each node and choice of candidates.
  const std::vector<RewriteRef>& rewrites_of(NodeId id, const Candidates& candidates) {
    auto [found, added] = rewrites_[candidates].emplace(id, std::vector<RewriteRef>{});
    if (!added) return found->second;
    std::vector<RewriteRef> all;
    auto rules = alone_.find(terms_.pcg()[id].op);
    if (rules != alone_.end())
      for (std::size_t rule : rules->second)
        for (Rewrite& rewrite : unity::rewrites_at(terms_, directed_[rule], id, {}, candidates))
          all.push_back(std::make_shared<const Rewrite>(std::move(rewrite)));
    return found->second = std::move(all);
  }

  std::vector<Edge> edges(int state, const Candidates& candidates, bool one_way) {
    const Values values = states_[static_cast<std::size_t>(state)];
    std::vector<NodeId> nodes = terms_.reach(values);
    std::vector<ParallelShape> wanted = shapes(values);
    std::vector<Edge> result;
    auto follow = [&](const RewriteRef& rewrite) {
      if (one_way && !one_way_.contains(rewrite->rule->index)) return;
      auto replaced = terms_.replace(values, rewrite->replaced);
      if (!replaced.ok() || *replaced == values || shapes(*replaced) != wanted) return;
      if (terms_.reach(*replaced).size() > limit_) return;
      result.push_back({number(*replaced), rewrite});
    };
    for (NodeId id : nodes) {
      for (const RewriteRef& rewrite : std::vector<RewriteRef>(rewrites_of(id, candidates))) follow(rewrite);
      auto rules = together_.find(terms_.pcg()[id].op);
      if (rules != together_.end())
        for (std::size_t rule : rules->second) {
          if (one_way && !one_way_.contains(directed_[rule].index)) continue;
          for (Rewrite& rewrite : unity::rewrites_at(terms_, directed_[rule], id, nodes, candidates))
            follow(std::make_shared<const Rewrite>(std::move(rewrite)));
        }
    }
    if (!one_way) {
      std::set<ValueRef> places(values.begin(), values.end());
      for (NodeId id : nodes) places.insert(terms_.pcg()[id].inputs.begin(), terms_.pcg()[id].inputs.end());
      for (ValueRef place : places)
        for (std::size_t rule : introducing_)
          for (Rewrite& rewrite : introductions_at(terms_, directed_[rule], place, candidates))
            follow(std::make_shared<const Rewrite>(std::move(rewrite)));
    }
    return result;
  }

  AppliedRule step_of(const RewriteRef& rewrite, int result, bool turned) const {
    const DirectedRule& directed = *rewrite->rule;
    AppliedRule step;
    step.rule = directed.index;
    step.backward = directed.backward != turned;
    const Rule& rule = rules_[directed.index];
    for (std::size_t a = 0; a < rule.attributes.size(); ++a)
      if (rewrite->attributes[a])
        if (const auto* integer = std::get_if<std::int64_t>(&*rewrite->attributes[a]))
          step.parameters[rule.attributes[a]] = *integer;
    step.result = graph(result);
    return step;
  }

  DerivationOptions options_;
  std::vector<Rule> rules_;
  std::vector<DirectedRule> directed_;
  // By the operator of the first output: rules whose outputs are all at one node, and others; looked up, never walked.
  std::map<const Operator*, std::vector<std::size_t>> alone_, together_;
  std::vector<std::size_t> introducing_;
  std::set<std::size_t> one_way_;  // rules that can be used in one direction only
  SharedTerms terms_;
  std::vector<Values> states_;
  std::map<Values, int> numbers_;
  std::map<Candidates, std::map<NodeId, std::vector<RewriteRef>>> rewrites_;
  std::size_t limit_ = 0;
};

std::string_view to_string(Derivation::Outcome outcome) {
  return outcome == Derivation::Outcome::found ? "found" : outcome == Derivation::Outcome::none ? "none" : "gave up";
}

DerivationSearch::DerivationSearch(std::span<const Rule> rules, DerivationOptions options)
    : impl_(std::make_unique<Impl>(rules, std::move(options))) {}
DerivationSearch::~DerivationSearch() = default;

const std::vector<Rule>& DerivationSearch::rules() const { return impl_->rules(); }
Derivation DerivationSearch::derive(const Pcg& from, const Pcg& to, int steps) {
  return impl_->derive(from, to, steps);
}
Derivation DerivationSearch::derive(const RuleInstance& instance, int steps) { return impl_->derive(instance, steps); }
int DerivationSearch::state(const Pcg& pcg) { return impl_->state(pcg); }
int DerivationSearch::state(const Pcg& side, const std::vector<ParallelShape>& variables) {
  return impl_->state(side, variables);
}
std::vector<DerivationSearch::Neighbour> DerivationSearch::neighbours(int state) { return impl_->neighbours(state); }
Pcg DerivationSearch::graph(int state) const { return impl_->graph(state); }

Derivation derive(const Pcg& from, const Pcg& to, std::span<const Rule> rules, int steps,
                  const DerivationOptions& options) {
  return DerivationSearch(rules, options).derive(from, to, steps);
}

}  // namespace unity
