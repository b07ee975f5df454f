// The graphs of a family as a map on which rules are roads: pruning and completeness ask how many steps lead from one
// graph to an equal one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/generate/pattern.h"

namespace unity {

// What becomes of an ordered pair of equal graphs.
enum class PairFate : std::uint8_t {
  leaf_source,      // a result of the source is a leaf, and rules replace operators
  constant,         // equal because neither depends on its leaves
  disconnected,     // the source is two graphs that share nothing
  renamed,          // the same as a pair with its leaves exchanged
  unbound,          // the target has a leaf that the source has not
  unread,           // the source selects from rows that the family's indices never reach: not seen to be equal there
  common_operator,  // both end in the same operator on equal operands: a pair of smaller graphs says it
  common_result,    // one of two results is the same value
  nonlinear,        // both sides use some value twice: a case of a pair of more leaves, or of rules that overlap
  derived,          // the rules at hand lead from one to the other
  waiting,          // only with rules that stood their tests but are not proved
  open,
};
inline constexpr std::size_t kPairFates = 12;
std::string_view to_string(PairFate fate);

class FamilyGraphs {
 public:
  explicit FamilyGraphs(Family family);

  const Family& family() const { return family_; }
  const Enumeration& enumeration() const { return graphs_; }

  // Graphs of classes only, numbered class by class.
  int size() const { return static_cast<int>(flat_.size()); }
  TermGraph graph(int g) const { return flat_[static_cast<std::size_t>(g)]; }
  int operators(int g) const { return operators_[static_cast<std::size_t>(g)]; }
  // The graphs [first, second) that equal graph g.
  std::pair<int, int> equals(int g) const {
    return class_range_[static_cast<std::size_t>(class_of_[static_cast<std::size_t>(g)])];
  }

  // How the pair fares, but for `derived`.
  PairFate fate(int source, int target) const;
  PairPattern pattern(int source, int target) const;

  // Which rules a road needs: proved ones, or any that hold on instances.
  enum class Roads : std::uint8_t { proved, tested };

  // Where the rule leads. Roads of a rule that only removes operators, `combine(a, d, partition(a, d, x)) => x`, lead
  // both ways: backward it introduces them at some value, which no rule can say, since sources are operators.
  struct RuleRoads {
    std::vector<std::pair<std::int32_t, std::int32_t>> roads;
    std::int64_t wrong = 0;  // results of another value than the graph's, which a sound rule never gives
  };
  RuleRoads roads_of(const Rule& rule);
  void add(const RuleRoads& found, Roads kind);
  // A tested road between these two graphs alone.
  void add_road(int source, int target) { roads_[1][static_cast<std::size_t>(source)].push_back(target); }

  // The graphs that at most `steps` roads lead to from `from`, itself included; in order. Roads::tested: of both kinds.
  std::vector<int> reach(int from, int steps, Roads roads) const;

 private:
  bool canonical_leaves(int g) const;
  bool uses_twice(int g) const;
  std::uint64_t leaf_set(std::int32_t value) const;
  bool has_unread_rows(int g) const;

  Family family_;
  Enumeration graphs_;
  Integers degrees_;  // that parameters of rules take
  std::vector<std::string> leaf_names_;
  std::vector<TermGraph> flat_;
  std::vector<std::int32_t> operators_, class_of_;
  std::vector<std::pair<int, int>> class_range_;
  std::vector<std::uint64_t> leaves_;                // by graph
  std::vector<std::array<std::uint64_t, 2>> kinds_;  // by graph: which operators occur
  std::vector<bool> nonlinear_;                      // by graph: some value has several uses
  std::vector<PairFate> alone_;                      // by graph: why it is no source; open: it may be
  std::unordered_map<std::uint64_t, int> index_;
  std::array<std::vector<std::vector<std::int32_t>>, 2> roads_;  // [Roads][graph]
};

}  // namespace unity
