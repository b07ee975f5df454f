#include "core/models/onnx/simplify.h"

#include "core/rewrite/apply.h"

namespace unity {
namespace {

// Whether the rule applied somewhere.
bool apply_once(Pcg& pcg, const Rule& rule) {
  for (const Match& match : find_matches(pcg, rule)) {
    auto after = apply(pcg, rule, match, {});
    if (!after.ok()) continue;
    pcg = std::move(*after);
    return true;
  }
  return false;
}

}  // namespace

Pcg simplify(Pcg pcg, const std::vector<Rule>& rules) {
  std::size_t steps = 0, most = 100 * (pcg.size() + 1);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Rule& rule : rules)
      while (apply_once(pcg, rule)) {
        changed = true;
        UNITY_CHECK(++steps < most, "rule {} is applied without end", rule.name);
      }
  }
  return pcg;
}

}  // namespace unity
