#include "core/search/part_chain.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/parallel.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/normalize.h"
#include "core/search/column_then_row.h"
#include "core/search/parallelism.h"
#include "core/search/pareto.h"

namespace unity {
namespace {

constexpr std::size_t kFrontKept = 6;                    // partial plans per layout at a cut
constexpr int kBudgetPerPart = 80;                       // candidates per part and pair of layouts
constexpr int kPatience = 12;                            // of these, without progress
constexpr std::ptrdiff_t kManyUnlike = 600;              // operators, of parts that are not alike,
constexpr int kPatienceOfMany = 3, kBudgetOfMany = 320;  // on many devices
constexpr std::size_t kAheadAtMost = 2;  // parts that are solved at once where the time of one may end the chain

// Shards the class of dimension `dim` of a value by `degree`, when it has one.
Result<State> shard_dimension(const State& state, ValueRef value, std::size_t dim, int degree,
                              Move::Kind kind = Move::Kind::shard_class, int devices = 0) {
  std::vector<AxisClass> classes = axis_classes(state.pcg);
  std::optional<std::size_t> found = class_of_dimension(state.pcg, classes, value, static_cast<int>(dim));
  if (!found) return fail("dimension {} belongs to no axis class", dim);
  return apply_move(state, {kind, static_cast<int>(*found), devices, degree}, classes, rule_library());
}

PartSolution solution(Found found) {
  const auto& [state, candidate] = found;
  return {candidate.score.iteration.count, candidate.memory.persistent.count, candidate.memory.transient.count,
          state.moves, canonical_hash(state.pcg)};
}

}  // namespace

std::optional<ChainPlan> without_rewritings(const ChainPlan& plan) {
  ChainPlan plain;
  bool other = false;
  for (const auto& [out, solution] : plan.chosen) {
    const PartSolution* s = is_rewritten(solution->moves) ? solution->plain.get() : solution;
    if (s == nullptr) return std::nullopt;
    other = other || s != solution;
    plain.time += s->time;
    plain.persistent += s->persistent;
    plain.transient = std::max(plain.transient, s->transient);
    plain.chosen.emplace_back(out, s);
  }
  return other ? std::optional(std::move(plain)) : std::nullopt;
}

void keep_front(std::vector<ChainPlan>& plans) {
  keep_pareto_front(
      plans, kFrontKept, [](const ChainPlan& p) { return p.time; },
      [](const ChainPlan& p) { return p.persistent + p.transient; });
}

PartChain::PartChain(const StrategyInput& input, std::vector<Part> parts, const SubstitutionOptions& of_parts,
                     int budget)
    : in_(input), parts_(std::move(parts)), of_parts_(of_parts), budget_(budget) {
  of_parts_.part = true;
  of_parts_.patience = kPatience;
  // One that takes long does so as many times as there are parts that are alike.
  std::map<Hash, std::size_t> first;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    auto graph = part_graph(in_.model, parts_[p], {}, {});
    kind_.push_back(graph.ok() ? first.try_emplace(canonical_hash(*graph), p).first->second : p);
  }
  least_.assign(parts_.size(), 0);
  // On many devices a candidate of a graph of many unlike operators takes long, and there are many to be solved.
  std::ptrdiff_t unlike = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p)
    for (std::size_t i = parts_[p].first; kind_[p] == p && i < parts_[p].last; ++i)
      unlike += in_.model.nodes()[i].is_compute() ? 1 : 0;
  if (in_.devices > kManyDevices && unlike > kManyUnlike && !in_.options.pareto) {
    of_parts_.patience = std::min(of_parts_.patience, kPatienceOfMany);
    budget_ = std::min(budget_, kBudgetOfMany);
  }
}

std::vector<std::vector<Layout>> PartChain::layouts_at_cuts() const {
  std::vector<std::vector<Layout>> all;
  const auto& allowed = in_.options.parallelism;
  const std::vector<AxisClass> classes = allowed.empty() ? std::vector<AxisClass>() : axis_classes(in_.model);
  for (const Part& part : parts_) {
    if (part.out.empty()) continue;
    all.push_back(boundary_layouts(in_.model, part, in_.devices));
    std::erase_if(all.back(), [&](const Layout& l) {
      std::set<std::string> kinds;
      for (std::size_t d = 0; d < l.degrees.size(); ++d) {
        if (l.degrees[d] == 1 || allowed.empty()) continue;
        for (NodeId out : part.out) {
          auto found = class_of_dimension(in_.model, classes, {out, 0}, static_cast<int>(d));
          kinds.merge(found ? kinds_of_class(in_.model, classes, *found) : std::set<std::string>{"spatial"});
        }
      }
      return !is_allowed(kinds, allowed);
    });
  }
  return all;
}

// Where level 2 starts: as the layouts suggest (their degrees applied to whole classes), and from scratch.
std::vector<State> PartChain::seeds(const Problem& problem) const {
  const Part& part = parts_[problem.part];
  State start{normalize(problem.graph), {}, {}};
  std::vector<State> states = {start};
  const Layout& layout = part.in.empty() ? problem.out : problem.in;
  State current = start;
  // The first value at the boundary; in the first part, of what is delivered.
  auto cut_value = [&](const Pcg& pcg) {
    for (std::size_t i = 0; i < pcg.size(); ++i) {
      const Node& n = pcg.nodes()[i];
      if (!part.in.empty() && n.op->name() == "boundary") return ValueRef{NodeId(static_cast<std::int64_t>(i)), 0};
      if (part.in.empty() && n.op->name() == "deliver") return n.inputs[0];
    }
    return ValueRef{};
  };
  State by_batch = start;
  for (std::size_t d = 0; d < layout.degrees.size(); ++d) {
    if (layout.degrees[d] == 1) continue;
    auto sharded = shard_dimension(current, cut_value(current.pcg), d, static_cast<int>(layout.degrees[d]));
    if (!sharded.ok()) break;
    current = std::move(*sharded);
    states.push_back(current);
    if (d == 0) by_batch = current;
  }
  // Columns, then rows inside; what is left over goes along the dimension that the layout splits (sequence parallelism:
  // Korthikanti et al., 2022), or is computed redundantly where the layout has copies.
  int inner = layout.tasks() / std::max(1, layout.degrees.empty() ? 1 : static_cast<int>(layout.degrees[0]));
  if (inner > 1 && in_.options.templates) {
    auto tensor = column_then_row(by_batch, inner, in_.devices, false, in_.options.parallelism,
                                  [&] { return in_.evaluator.stopping(); });
    for (std::size_t d = 1; d < layout.degrees.size() && tensor.ok(); ++d)
      if (layout.degrees[d] > 1)
        tensor = shard_dimension(*tensor, cut_value(tensor->pcg), d, static_cast<int>(layout.degrees[d]),
                                 Move::Kind::fill_class, in_.devices);
    if (tensor.ok()) states.push_back(std::move(*tensor));
  }
  if (part.in.empty() && layout.copies > 1) {
    auto copied = apply_move(current, {Move::Kind::replicate_all, 0, 0, layout.copies});
    if (copied.ok()) states.push_back(std::move(*copied));
  }
  return states;
}

Result<PartChain::Problem> PartChain::problem(std::size_t part, const Layout& in, const Layout& out,
                                              Picoseconds limit) const {
  return in_.evaluator.record().timed(SearchLevel::split, [&]() -> Result<Problem> {
    Pcg graph = UNITY_TRY(part_graph(in_.model, parts_[part], in, out));
    Hash key = combine(canonical_hash(graph), mix(!parts_[part].in.empty()));
    if (!in_.options.cache) key = combine(key, memo_.size());
    return Problem{part, in, out, limit, std::move(graph), key};
  });
}

const std::vector<PartSolution>& PartChain::solve(std::size_t part, const Layout& in, const Layout& out,
                                                  Picoseconds limit) {
  static const std::vector<PartSolution> kNone;
  if (in_.evaluator.stopping()) return kNone;
  auto wanted = problem(part, in, out, limit);
  if (!wanted.ok()) return kNone;
  Hash key = wanted->key;
  if (!memo_.contains(key)) {
    std::vector<Problem> one;
    one.push_back(std::move(*wanted));
    solve_all(std::move(one));
  }
  Solved& solved = memo_.at(key);
  if (solved.used) in_.evaluator.record().part_reused();
  solved.used = true;
  return solved.front;
}

// Those that are not known yet, at the same time: each starts from what was known before, so that the result does not
// depend on how many threads there are. What is left of the budget they share.
void PartChain::solve_all(std::vector<Problem> problems) {
  std::set<Hash> listed;
  std::erase_if(problems, [&](const Problem& p) { return memo_.contains(p.key) || !listed.insert(p.key).second; });
  if (problems.empty()) return;
  auto left = std::max<std::int64_t>(0, budget_ - in_.evaluator.scored());
  int each = static_cast<int>(std::min<std::int64_t>(kBudgetPerPart, left / std::ssize(problems)));
  std::vector<RewritingGains> gains(problems.size(), gains_);
  std::vector<SubstitutionResult> results(problems.size());
  parallel_for(problems.size(), in_.evaluator.threads(), [&](std::size_t i) {
    if (each == 0 || in_.evaluator.stopping()) return;
    SubstitutionOptions options = of_parts_;
    options.budget = each;
    options.limit = problems[i].limit;
    if (in_.options.cache) options.gains = &gains[i];
    in_.evaluator.record().part_solved();
    results[i] = substitute(seeds(problems[i]), in_.evaluator, options);
  });
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (in_.options.cache) gains_.merge(gains[i]);
    Solved& solved = memo_[problems[i].key];
    cut_short_ += each == 0 || results[i].out_of_budget;
    std::shared_ptr<const PartSolution> plain;
    if (results[i].plain) plain = std::make_shared<const PartSolution>(solution(std::move(*results[i].plain)));
    for (Found& f : results[i].found) {
      solved.front.push_back(solution(std::move(f)));
      if (is_rewritten(solved.front.back().moves)) solved.front.back().plain = plain;
    }
  }
}

// How long a part may take, when what is before it takes `before`, and what is after it the least known.
Picoseconds PartChain::limit_of(std::size_t part, std::int64_t before, std::int64_t limit) const {
  if (limit == 0) return {};
  std::int64_t others = 0, alike = 0;
  for (std::size_t q = part; q < parts_.size(); ++q)
    if (kind_[q] == kind_[part])
      ++alike;
    else
      others += least_[kind_[q]];
  return {std::max<std::int64_t>(1, (limit - before - others) / alike)};
}

// This part under all its layouts, and those after it, too: without a limit all will be asked for, else the next may
// be.
void PartChain::solve_ahead(std::size_t part, const std::vector<Layout>& ends,
                            const std::vector<std::vector<Layout>>& layouts, std::int64_t before, std::int64_t limit) {
  if (!in_.options.cache || (limit == 0 && part > 0)) return;
  std::vector<Problem> problems;
  std::set<Hash> fresh;
  std::set<std::size_t> parts;
  for (std::size_t p = part; p < parts_.size(); ++p) {
    const std::vector<Layout> none = {{}};
    for (const Layout& in : p == part ? ends : layouts[p - 1])
      for (const Layout& out : p + 1 == parts_.size() ? none : layouts[p]) {
        auto wanted = problem(p, in, out, limit_of(p, before, limit));
        if (!wanted.ok() || memo_.contains(wanted->key) || !fresh.insert(wanted->key).second) continue;
        parts.insert(p);
        problems.push_back(std::move(*wanted));
      }
    // What is known already may end the chain.
    if (limit > 0 && (parts.empty() || parts.size() >= kAheadAtMost)) break;
  }
  solve_all(std::move(problems));
}

std::vector<ChainPlan> PartChain::run(const std::vector<std::vector<Layout>>& layouts, std::int64_t limit,
                                      const std::function<void(const std::string&)>& progress) {
  std::vector<std::pair<Layout, std::vector<ChainPlan>>> ends;  // by layout at the current cut
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    std::vector<std::pair<Layout, std::vector<ChainPlan>>> next;
    std::int64_t before = std::numeric_limits<std::int64_t>::max(), rest = 0;
    for (const auto& [in, plans] : ends) before = std::min(before, plans[0].time);
    if (p == 0) before = 0;
    for (std::size_t q = p; q < parts_.size(); ++q) rest += least_[kind_[q]];
    if (ends.empty() && p > 0) return {};
    if (limit > 0 && before + rest > limit) return {};
    const Picoseconds of_part = limit_of(p, before, limit);
    std::vector<Layout> ins;
    for (const auto& [in, plans] : ends) ins.push_back(in);
    if (p == 0) ins = {{}};
    solve_ahead(p, ins, layouts, before, limit);
    for (const Layout& out : p + 1 == parts_.size() ? std::vector<Layout>{{}} : layouts[p]) {
      std::vector<ChainPlan> reached;
      auto extend = [&](const ChainPlan& so_far, const Layout& in) {
        for (const PartSolution& s : solve(p, in, out, of_part)) {
          ChainPlan plan = so_far;
          plan.time += s.time;
          plan.persistent += s.persistent;
          plan.transient = std::max(plan.transient, s.transient);
          plan.chosen.emplace_back(out, &s);
          reached.push_back(std::move(plan));
        }
      };
      if (p == 0) extend({}, {});
      for (const auto& [in, plans] : ends)
        for (const ChainPlan& so_far : plans) extend(so_far, in);
      keep_front(reached);
      if (!reached.empty() && (least_[kind_[p]] == 0 || reached[0].time - before < least_[kind_[p]]))
        least_[kind_[p]] = reached[0].time - before;
      if (!reached.empty()) next.emplace_back(out, std::move(reached));
      progress(fmt::format("part {} of {}, layout {}", p + 1, parts_.size(), to_string(out)));
    }
    ends = std::move(next);
  }
  std::vector<ChainPlan> complete;
  for (auto& [out, plans] : ends)
    for (ChainPlan& p : plans) complete.push_back(std::move(p));
  return complete;
}

Result<State> PartChain::assemble(const ChainPlan& plan) const {
  State whole;
  std::vector<Pcg> graphs;
  Layout in;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const auto& [out, solution] = plan.chosen[p];
    State state{normalize(UNITY_TRY(part_graph(in_.model, parts_[p], in, out))), {}, {}};
    for (const Move& m : solution->moves) state = UNITY_TRY(apply_move(state, m, *of_parts_.rules));
    if (canonical_hash(state.pcg) != solution->hash)
      return fail("a part is not isomorphic to the one its solution was found for");
    whole.steps.insert(whole.steps.end(), state.steps.begin(), state.steps.end());
    if (p + 1 < parts_.size())
      whole.steps.push_back({"cut " + to_string(out), in_.model[parts_[p].out.back()].name, 0, 0});
    graphs.push_back(std::move(state.pcg));
    in = out;
  }
  whole.pcg = normalize(UNITY_TRY(stitch(in_.model, parts_, graphs)));
  return whole;
}

}  // namespace unity
