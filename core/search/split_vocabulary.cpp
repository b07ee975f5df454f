#include "core/search/split_vocabulary.h"

#include <algorithm>

#include "core/rewrite/axis_classes.h"
#include "core/rewrite/match.h"

namespace unity {

Result<State> unfuse_cross_entropy(const State& state) {
  const std::vector<Rule>& rules = rule_library();
  std::int64_t most = 0;
  Move move{Move::Kind::rule, -1, 0, 0};
  for (std::size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].name.starts_with("unfuse_cross_entropy")) continue;
    std::vector<Match> matches = find_matches(state.pcg, rules[r]);
    for (std::size_t m = 0; m < matches.size(); ++m) {
      std::int64_t classes = state.pcg.shape(state.pcg[matches[m].root()].inputs[0]).dims.back().size;
      if (classes > most) most = classes, move.index = static_cast<int>(r), move.match = static_cast<int>(m);
    }
  }
  if (move.index < 0) return fail("the model has no cross-entropy over classes");
  return apply_move(state, move);
}

Result<State> split_vocabulary(const State& state, int degree) {
  std::vector<AxisClass> classes = axis_classes(state.pcg);
  auto takes = [&](const AxisClassMember& m, std::string_view op, std::string_view axis) {
    const Node& n = state.pcg[m.node];
    return n.op->name() == op && n.table->axes[static_cast<std::size_t>(m.axis)].name == axis;
  };
  for (std::size_t c = 0; c < classes.size(); ++c) {
    bool picked = false, columns = false;
    for (const AxisClassMember& m : classes[c].members) {
      picked = picked || takes(m, "pick", "c");
      columns = columns || takes(m, "matmul", "n");
    }
    if (!picked || !columns) continue;
    auto even = apply_move(state, {Move::Kind::shard_class, static_cast<int>(c), 0, degree});
    return even.ok() ? std::move(even)
                     : apply_move(state, {Move::Kind::shard_unevenly, static_cast<int>(c), 0, degree});
  }
  return fail("no matmul computes logits by columns");
}

}  // namespace unity
