#include "core/search/column_then_row.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/rewrite/axis_classes.h"
#include "core/search/parallelism.h"

namespace unity {
namespace {

int count_of(const Pcg& pcg, std::string_view op) {
  return static_cast<int>(
      std::count_if(pcg.nodes().begin(), pcg.nodes().end(), [&](const Node& n) { return n.op->name() == op; }));
}

// Whether a class splits matmuls by columns and others by rows.
bool is_column_then_row(const Pcg& pcg, const AxisClass& axis_class) {
  bool column = false, row = false;
  for (const AxisClassMember& m : axis_class.members) {
    const Node& n = pcg[m.node];
    if (n.op->name() != "matmul") continue;
    const std::string& axis = n.table->axes[static_cast<std::size_t>(m.axis)].name;
    column = column || axis == "n";
    row = row || axis == "k";
  }
  return column && row;
}

bool may_split(const Pcg& pcg, const std::vector<AxisClass>& classes, std::size_t c,
               const std::vector<std::string>& allowed) {
  return is_column_then_row(pcg, classes[c]) &&
         (allowed.empty() || is_allowed(kinds_of_class(pcg, classes, c), allowed));
}

// Where a matmul is split already, its other side stays whole.
bool is_pair(const Pcg& before, const Pcg& after, int devices) {
  return most_tasks(after) <= devices && count_of(after, "combine") <= count_of(before, "combine");
}

std::set<NodeId> operators_of(const AxisClass& axis_class) {
  std::set<NodeId> nodes;
  for (const AxisClassMember& m : axis_class.members) nodes.insert(m.node);
  return nodes;
}

// Divides them into classes no two of which share an operator and those that are left: first the one that shares
// operators with most others (a residual stream with the layers that read and write it).
std::pair<std::vector<std::size_t>, std::vector<std::size_t>> without_conflicts(const std::vector<AxisClass>& classes,
                                                                                std::vector<std::size_t> pairs) {
  std::map<NodeId, std::vector<std::size_t>> users;
  for (std::size_t c : pairs)
    for (NodeId node : operators_of(classes[c])) users[node].push_back(c);
  std::map<std::size_t, std::set<std::size_t>> conflicts;
  for (const auto& [node, sharing] : users)
    for (std::size_t c : sharing)
      for (std::size_t other : sharing)
        if (other != c) conflicts[c].insert(other);
  std::vector<std::size_t> left;
  while (!conflicts.empty()) {
    auto most = std::max_element(conflicts.begin(), conflicts.end(),
                                 [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    std::size_t c = most->first;
    conflicts.erase(most);
    for (auto& [other, with] : conflicts) with.erase(c);
    std::erase_if(conflicts, [](const auto& entry) { return entry.second.empty(); });
    left.push_back(c);
    std::erase(pairs, c);
  }
  return {std::move(pairs), std::move(left)};
}

// All such classes that can be divided so, at once, which gives what one after the other does; nothing where not all of
// them can be split, or where one that shares operators with others could be.
std::optional<State> all_at_once(const State& state, const std::vector<AxisClass>& classes, int degree, int devices,
                                 bool uneven, const std::vector<std::string>& allowed,
                                 const std::function<bool()>& stop) {
  std::vector<std::size_t> pairs;
  auto divides = [&](const AxisClassMember& m) {
    return shard_operands(state.pcg, m.node, m.axis, degree, uneven).ok();
  };
  for (std::size_t c = 0; c < classes.size(); ++c)
    if (may_split(state.pcg, classes, c, allowed) &&
        std::all_of(classes[c].members.begin(), classes[c].members.end(), divides))
      pairs.push_back(c);
  auto [apart, left] = without_conflicts(classes, std::move(pairs));
  for (std::size_t c : left) {
    if (stop && stop()) return std::nullopt;
    auto alone = shard_class(state.pcg, classes[c], degree, nullptr, uneven);
    if (alone.ok() && is_pair(state.pcg, *alone, devices)) return std::nullopt;
  }
  State next{{}, state.moves, state.steps};
  AxisClass all{"columns, then rows", {}, {}};
  for (std::size_t c : apart) {
    all.members.insert(all.members.end(), classes[c].members.begin(), classes[c].members.end());
    next.moves.push_back(
        {uneven ? Move::Kind::shard_unevenly : Move::Kind::shard_class, static_cast<int>(c), 0, degree});
  }
  std::sort(all.members.begin(), all.members.end());
  auto one_node = [](const AxisClassMember& a, const AxisClassMember& b) { return a.node == b.node; };
  auto walks_window = [&](const AxisClassMember& m) {  // the parts of others may then be uneven, too
    return state.pcg[m.node].table->axes[static_cast<std::size_t>(m.axis)].role == AxisRole::window;
  };
  if (all.members.empty() ||
      std::adjacent_find(all.members.begin(), all.members.end(), one_node) != all.members.end() ||
      std::any_of(all.members.begin(), all.members.end(), walks_window))
    return std::nullopt;
  std::vector<DerivationEvent> log;
  auto split = shard_class(state.pcg, all, degree, &log, uneven);
  if (!split.ok() || !is_pair(state.pcg, *split, devices)) return std::nullopt;
  next.pcg = std::move(*split);
  for (const DerivationEvent& e : log) next.steps.push_back({e.rule, e.where, e.degree, 0});
  return next;
}

}  // namespace

Result<State> column_then_row(const State& state, int degree, int devices, bool uneven,
                              const std::vector<std::string>& allowed, const std::function<bool()>& stop) {
  std::vector<AxisClass> classes = axis_classes(state.pcg);
  for (bool parts_differ : {false, true})
    if (uneven || !parts_differ)
      if (auto all = all_at_once(state, classes, degree, devices, parts_differ, allowed, stop)) return std::move(*all);
  State current = state;
  int applied = 0;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (stop && stop()) return fail("the search was stopped");
    if (!may_split(current.pcg, classes, c, allowed)) continue;
    auto split = [&](Move::Kind kind) {
      return apply_move(current, {kind, static_cast<int>(c), 0, degree}, classes, rule_library());
    };
    auto next = split(Move::Kind::shard_class);
    if (!next.ok() && uneven) next = split(Move::Kind::shard_unevenly);
    if (!next.ok() || !is_pair(current.pcg, next->pcg, devices)) continue;
    current = std::move(*next);
    classes = axis_classes(current.pcg);
    ++applied;
  }
  if (applied == 0) return fail("no pair of matmuls can be split by columns, then rows, {} ways", degree);
  return current;
}

}  // namespace unity
