#include "core/search/column_then_row.h"

#include <algorithm>
#include <optional>

#include "core/rewrite/axis_classes.h"

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

// Where a matmul is split already, its other side stays whole.
bool is_pair(const Pcg& before, const Pcg& after, int devices) {
  return most_tasks(after) <= devices && count_of(after, "combine") <= count_of(before, "combine");
}

// All such classes at once, which gives what one after the other does; nothing where some of them can not be split, or
// share an operator.
std::optional<State> all_at_once(const State& state, const std::vector<AxisClass>& classes, int degree, int devices,
                                 bool uneven) {
  State next{{}, state.moves, state.steps};
  AxisClass all{"columns, then rows", {}, {}};
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (!is_column_then_row(state.pcg, classes[c])) continue;
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

Result<State> column_then_row(const State& state, int degree, int devices, bool uneven) {
  std::vector<AxisClass> classes = axis_classes(state.pcg);
  for (bool parts_differ : {false, true})
    if (uneven || !parts_differ)
      if (auto all = all_at_once(state, classes, degree, devices, parts_differ)) return std::move(*all);
  State current = state;
  int applied = 0;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (!is_column_then_row(current.pcg, classes[c])) continue;
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
