// The rule library as the panel shows it: what is known of each rule, its two sides as a picture, and where it can be
// applied.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/proof.h"
#include "gui/layout/geometry.h"
#include "gui/widgets/painter.h"

namespace unity::gui {

struct RuleEntry {
  const Rule* rule = nullptr;
  std::string file;                    // "matmul"
  const ProofRecord* proof = nullptr;  // null: none on record, or a stale one
  std::string status;                  // "proved for all degrees", or what is wrong
};
// Of the library, in the order of its files.
const std::vector<RuleEntry>& rule_entries();
// Those whose name, file or operators hold all words of the query, by their index.
std::vector<std::size_t> search_rules(const std::vector<RuleEntry>& entries, const std::string& query);
// Label and value: the proof's prover, degrees, shapes, axioms; the conditions.
std::vector<std::pair<std::string, std::string>> rule_facts(const RuleEntry& entry);

// Source and target side by side.
struct RulePicture {
  struct Box {
    Rect box;
    std::string text;
    enum class Kind : std::uint8_t { variable, op, layout, result } kind = Kind::op;
  };
  std::vector<Box> boxes;
  std::vector<std::vector<Point>> edges;
  Rect source, target;  // around each side
  Rect bounds;
};
// `program`: this executable, for dot (gui/layout/layout.h).
RulePicture picture_of(const Rule& rule, const TextMetrics& metrics, const std::string& program);
void paint_rule(Painter& painter, const RulePicture& picture, const Theme& theme);

// Where the source of a rule occurs in a plan's graph, and with which parameters it can be applied there.
struct RulePlaces {
  const Pcg* graph = nullptr;  // in which they are
  std::vector<Match> matches;
  std::vector<std::string> labels;               // of their roots
  std::vector<std::vector<Parameters>> choices;  // with which it can be applied there; of the first kChoices of them
  std::vector<int> numbers;                      // among all matches: of find_matches()
  std::size_t ill_typed = 0;                     // matches at which applying it would not fit, which are left out
  static constexpr std::size_t kChoices = 400;
};
// Those of equal operators in other layers are tried once.
RulePlaces rule_places(const Plan& plan, const Topology& topology, const Rule& rule,
                       const std::atomic<bool>* stop = nullptr);

// By entry: whether its rule has a match in the graph. Stops early when cancelled.
std::vector<bool> rules_that_match(const Pcg& pcg, const std::vector<RuleEntry>& entries,
                                   const std::atomic<bool>* stop = nullptr);

// Steps of a derivation.
struct DerivationLine {
  int first = 0, count = 1;  // steps
  std::string rule;
  std::string where;  // of the first
  int degree = 0;
  std::int64_t before = 0, after = 0;  // picoseconds; 0: not scored
  std::vector<NodeId> nodes;           // of the plan's graph that carry the labels
};
// `together`: neighbouring steps that lay out operators the same way (all that shard in 6) are one line.
std::vector<DerivationLine> derivation_lines(const Plan& plan, bool together);

}  // namespace unity::gui
