#include "core/search/column_then_row.h"

#include <algorithm>

#include "core/rewrite/axis_classes.h"

namespace unity {
namespace {

int count_of(const Pcg& pcg, std::string_view op) {
  return static_cast<int>(
      std::count_if(pcg.nodes().begin(), pcg.nodes().end(), [&](const Node& n) { return n.op->name() == op; }));
}

}  // namespace

Result<State> column_then_row(const State& state, int degree, int devices, bool uneven) {
  State current = state;
  int applied = 0;
  std::vector<AxisClass> classes = axis_classes(current.pcg);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    bool column = false, row = false;
    for (const AxisClassMember& m : classes[c].members) {
      const Node& n = current.pcg[m.node];
      if (n.op->name() != "matmul") continue;
      const std::string& axis = n.table->axes[static_cast<std::size_t>(m.axis)].name;
      column = column || axis == "n";
      row = row || axis == "k";
    }
    if (!column || !row) continue;
    auto split = [&](Move::Kind kind) {
      return apply_move(current, {kind, static_cast<int>(c), 0, degree}, classes, rule_library());
    };
    auto next = split(Move::Kind::shard_class);
    if (!next.ok() && uneven) next = split(Move::Kind::shard_unevenly);
    // Where a matmul is split already, its other side stays whole.
    if (!next.ok() || most_tasks(next->pcg) > devices ||
        count_of(next->pcg, "combine") > count_of(current.pcg, "combine"))
      continue;
    current = std::move(*next);
    classes = axis_classes(current.pcg);
    ++applied;
  }
  if (applied == 0) return fail("no pair of matmuls can be split by columns, then rows, {} ways", degree);
  return current;
}

}  // namespace unity
