#include "core/generate/family_graphs.h"

#include <algorithm>
#include <map>

#include "core/generate/term_rewrite.h"

namespace unity {
namespace {

std::uint64_t key_of(TermGraph g) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(g.first)) << 32 | static_cast<std::uint32_t>(g.second);
}

using Kinds = std::array<std::uint64_t, 2>;

Kinds kind_of(const Operator* op) {
  static const std::unordered_map<const Operator*, std::size_t> numbers = [] {
    std::unordered_map<const Operator*, std::size_t> all;
    for (const Operator* o : all_operators()) all.emplace(o, all.size());
    UNITY_CHECK(all.size() <= 128, "found {} operators, expected at most 128", all.size());
    return all;
  }();
  std::size_t i = numbers.at(op);
  Kinds kinds{};
  kinds[i / 64] = std::uint64_t{1} << (i % 64);
  return kinds;
}

}  // namespace

std::string_view to_string(PairFate fate) {
  constexpr std::array<std::string_view, kPairFates> kNames = {
      "leaf source",     "constant",      "disconnected", "renamed", "unbound", "unread",
      "common operator", "common result", "nonlinear",    "derived", "waiting", "open"};
  return kNames[static_cast<std::size_t>(fate)];
}

FamilyGraphs::FamilyGraphs(Family family) : family_(std::move(family)), graphs_(enumerate(family_)) {
  const TermTable& terms = graphs_.terms;
  UNITY_CHECK(terms.leaves() <= 64, "family {}: found {} leaves, expected at most 64", family_.name, terms.leaves());
  for (std::int32_t l : graphs_.leaf_of) leaf_names_.push_back(family_.leaves[static_cast<std::size_t>(l)].name);
  for (const TermOperator& op : family_.operators) {
    auto specs = op.op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (op.op->category() == OpCategory::parallelization && specs[i].name == "degree" &&
          int_attribute(op.attributes, i) > 1)
        degrees_.push_back(int_attribute(op.attributes, i));
  }
  std::sort(degrees_.begin(), degrees_.end());
  degrees_.erase(std::unique(degrees_.begin(), degrees_.end()), degrees_.end());

  for (std::size_t c = 0; c < graphs_.classes.size(); ++c) {
    int first = size();
    for (TermGraph g : graphs_.classes[c]) {
      index_.emplace(key_of(g), size());
      flat_.push_back(g);
      operators_.push_back(operators_of(terms, g));
      class_of_.push_back(static_cast<std::int32_t>(c));
      leaves_.push_back(leaf_set(g.first) | (g.second < 0 ? 0 : leaf_set(g.second)));
      Kinds kinds{};
      for (std::int32_t n : nodes_of(terms, g)) {
        Kinds k = kind_of(terms.op_of(n).op);
        kinds[0] |= k[0], kinds[1] |= k[1];
      }
      kinds_.push_back(kinds);
    }
    class_range_.emplace_back(first, size());
  }
  for (auto& roads : roads_) roads.resize(flat_.size());

  for (int g = 0; g < size(); ++g) {
    TermGraph t = graph(g);
    auto is_leaf = [&](std::int32_t v) { return v >= 0 && terms.value(v).node < 0; };
    auto is_constant = [&](std::int32_t v) { return v >= 0 && terms.constant(v); };
    PairFate fate = PairFate::open;
    if (is_leaf(t.first) || is_leaf(t.second))
      fate = PairFate::leaf_source;
    else if (is_constant(t.first) || is_constant(t.second))
      fate = PairFate::constant;
    else if (t.second >= 0 && !(leaf_set(t.first) & leaf_set(t.second)))
      fate = PairFate::disconnected;
    else if (!canonical_leaves(g))
      fate = PairFate::renamed;
    else if (has_unread_rows(g))
      fate = PairFate::unread;
    alone_.push_back(fate);
    nonlinear_.push_back(uses_twice(g));
  }
}

std::uint64_t FamilyGraphs::leaf_set(std::int32_t v) const {
  const TermValue& value = graphs_.terms.value(v);
  if (value.node < 0) return std::uint64_t{1} << v;
  std::uint64_t set = 0;
  for (std::int32_t i = 0; i < value.operators; ++i)
    for (std::int32_t in : graphs_.terms.inputs(value.closure[static_cast<std::size_t>(i)]))
      if (graphs_.terms.value(in).node < 0) set |= std::uint64_t{1} << in;
  return set;
}

// Leaves of one shape occur in their order: of all graphs that differ by exchanging them, one does.
bool FamilyGraphs::canonical_leaves(int g) const {
  const TermTable& terms = graphs_.terms;
  std::vector<std::int32_t> order, stack;
  for (std::int32_t v : {graph(g).second, graph(g).first})
    if (v >= 0) stack.push_back(v);
  while (!stack.empty()) {
    std::int32_t v = stack.back();
    stack.pop_back();
    if (terms.value(v).node < 0) {
      if (std::find(order.begin(), order.end(), v) == order.end()) order.push_back(v);
      continue;
    }
    auto inputs = terms.inputs(terms.value(v).node);
    stack.insert(stack.end(), inputs.rbegin(), inputs.rend());
  }
  auto bound = [&](std::int32_t leaf) {
    return family_.leaves[static_cast<std::size_t>(graphs_.leaf_of[static_cast<std::size_t>(leaf)])].index_bound;
  };
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::int32_t other = 0; other < order[i]; ++other)
      if (terms.value(other).shape == terms.value(order[i]).shape && bound(other) == bound(order[i]) &&
          std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), other) ==
              order.begin() + static_cast<std::ptrdiff_t>(i))
        return false;
  return true;
}

// Some indices select from more rows than the family draws indices.
bool FamilyGraphs::has_unread_rows(int g) const {
  const TermTable& terms = graphs_.terms;
  std::map<std::int32_t, std::int64_t> bounds;  // by value; operators that move indices pass theirs on
  std::vector<std::int32_t> nodes = nodes_of(terms, graph(g));
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    auto inputs = terms.inputs(*n);
    std::vector<Shape> shapes;
    for (std::int32_t v : inputs) shapes.push_back(terms.shape(v).shape());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (shapes[i].dtype != DType::i32) continue;
      auto bound = terms.op_of(*n).op->index_bound(terms.op_of(*n).attributes, shapes, i);
      for (std::int32_t r = 0; !bound && r < terms.node(*n).results; ++r)
        if (auto passed = bounds.find(terms.node(*n).first_value + r); passed != bounds.end()) bound = passed->second;
      if (bound) bounds[inputs[i]] = bounds.contains(inputs[i]) ? std::max(bounds[inputs[i]], *bound) : *bound;
    }
  }
  return std::any_of(bounds.begin(), bounds.end(), [&](auto bound) {
    if (terms.value(bound.first).node >= 0) return false;
    std::int32_t leaf = graphs_.leaf_of[static_cast<std::size_t>(bound.first)];
    return bound.second > family_.leaves[static_cast<std::size_t>(leaf)].index_bound;
  });
}

bool FamilyGraphs::uses_twice(int g) const {
  std::vector<std::int32_t> used;
  for (std::int32_t v : {graph(g).first, graph(g).second})
    if (v >= 0) used.push_back(v);
  for (std::int32_t n : nodes_of(graphs_.terms, graph(g)))
    for (std::int32_t v : graphs_.terms.inputs(n)) used.push_back(v);
  std::sort(used.begin(), used.end());
  return std::adjacent_find(used.begin(), used.end()) != used.end();
}

PairFate FamilyGraphs::fate(int source, int target) const {
  auto s = static_cast<std::size_t>(source), t = static_cast<std::size_t>(target);
  if (alone_[s] != PairFate::open) return alone_[s];
  if (leaves_[t] & ~leaves_[s]) return PairFate::unbound;
  if (nonlinear_[s] && nonlinear_[t]) return PairFate::nonlinear;
  TermGraph a = flat_[s], b = flat_[t];
  if (a.second >= 0) {
    if (a.first == b.first || a.second == b.second) return PairFate::common_result;
    return PairFate::open;
  }
  const TermTable& terms = graphs_.terms;
  const TermValue &x = terms.value(a.first), &y = terms.value(b.first);
  if (y.node < 0 || terms.node(x.node).op != terms.node(y.node).op || x.output != y.output) return PairFate::open;
  auto p = terms.inputs(x.node), q = terms.inputs(y.node);
  for (std::size_t i = 0; i < p.size(); ++i)
    if (terms.value(p[i]).logical != terms.value(q[i]).logical || terms.value(p[i]).shape != terms.value(q[i]).shape)
      return PairFate::open;
  return PairFate::common_operator;
}

PairPattern FamilyGraphs::pattern(int source, int target) const {
  auto pattern = pair_pattern(graphs_.terms, graph(source), graph(target), leaf_names_);
  UNITY_CHECK(pattern, "family {}: a target has leaves of its own", family_.name);
  return std::move(*pattern);
}

FamilyGraphs::RuleRoads FamilyGraphs::roads_of(const Rule& rule) {
  Kinds needed{};
  for (std::size_t n = 0; n < rule.source_nodes; ++n) {
    Kinds k = kind_of(rule.nodes[n].op);
    needed[0] |= k[0], needed[1] |= k[1];
  }
  bool removes = std::all_of(rule.target_outputs.begin(), rule.target_outputs.end(),
                             [](PatternValue v) { return v.variable >= 0; });
  RuleRoads result;
  for (std::size_t g = 0; g < flat_.size(); ++g) {
    if ((needed[0] & ~kinds_[g][0]) || (needed[1] & ~kinds_[g][1])) continue;
    for (TermGraph made : rewrite_term(graphs_.terms, rule, flat_[g], degrees_)) {
      auto same = [&](std::int32_t a, std::int32_t b) {
        return a < 0 || graphs_.terms.value(a).logical == graphs_.terms.value(b).logical;
      };
      if (!same(made.first, flat_[g].first) || !same(made.second, flat_[g].second)) ++result.wrong;
      auto found = index_.find(key_of(made));
      if (found == index_.end() || class_of_[static_cast<std::size_t>(found->second)] != class_of_[g]) continue;
      auto from = static_cast<std::int32_t>(g);
      result.roads.emplace_back(from, found->second);
      if (removes) result.roads.emplace_back(found->second, from);
    }
  }
  return result;
}

void FamilyGraphs::add(const RuleRoads& found, Roads kind) {
  for (auto [from, to] : found.roads) {
    std::vector<std::int32_t>& roads = roads_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(from)];
    if (std::find(roads.begin(), roads.end(), to) == roads.end()) roads.push_back(to);
  }
}

std::vector<int> FamilyGraphs::reach(int from, int steps, Roads kind) const {
  auto [first, last] = equals(from);
  std::vector<bool> seen(static_cast<std::size_t>(last - first), false);
  std::vector<int> reached = {from};
  seen[static_cast<std::size_t>(from - first)] = true;
  for (std::size_t begin = 0; steps > 0; --steps) {
    std::size_t end = reached.size();
    for (; begin < end; ++begin)
      for (std::size_t k = 0; k <= static_cast<std::size_t>(kind); ++k)
        for (std::int32_t to : roads_[k][static_cast<std::size_t>(reached[begin])])
          if (!seen[static_cast<std::size_t>(to - first)]) {
            seen[static_cast<std::size_t>(to - first)] = true;
            reached.push_back(to);
          }
  }
  std::sort(reached.begin(), reached.end());
  return reached;
}

}  // namespace unity
