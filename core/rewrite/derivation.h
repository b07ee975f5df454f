// Whether one graph follows from another by applications of rules, and by which: a search from both ends over graphs of
// few operators. A rule is an equation here. It is applied from left to right or from right to left, where one of them
// can be matched, for it holds both ways wherever both of its sides are well-typed.
//
// Graphs are equal when their terms are (shared_terms.h): sharing equal operators and the order of commutative operands
// cost no application, everything else does; in particular nothing is normalised. An application replaces a value at
// all of its uses; values inside a match may have other uses.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/rewrite/apply.h"
#include "core/rewrite/instance.h"

namespace unity {

struct DerivationOptions {
  std::size_t states = 50000;  // graphs that one search may look at
  int growth = 3;              // operators that a graph may have more than the larger of the two ends
  // Values that parameters may take besides the degrees of both ends, their products and quotients.
  Integers candidates;
  // Rules `x => ..` are also applied to any value of a graph. They make searches wide.
  bool introduce = false;
};

struct AppliedRule {
  std::size_t rule = 0;   // index into the rules
  bool backward = false;  // from right to left
  Parameters parameters;  // integers of the rule that were chosen or bound
  Pcg result;             // the graph after it
};

struct Derivation {
  enum class Outcome : std::uint8_t { found, none, gave_up } outcome = Outcome::none;
  std::vector<AppliedRule> steps;  // of `found`: as few as possible
  std::size_t states = 0;          // graphs that were looked at
  std::string why;                 // of `gave_up`: what ran out
  explicit operator bool() const { return outcome == Outcome::found; }
};
std::string_view to_string(Derivation::Outcome outcome);

// Keeps what it learns about graphs from one search to the next. Not thread-safe: one for each thread.
class DerivationSearch {
 public:
  explicit DerivationSearch(std::span<const Rule> rules, DerivationOptions options = {});
  ~DerivationSearch();

  const std::vector<Rule>& rules() const;

  // From `from` to `to` in at most `steps` applications. Leaves of the same name are the same. None when outputs differ
  // in parallel shape.
  Derivation derive(const Pcg& from, const Pcg& to, int steps);
  // Of the instance of a rule, from its source to its target: its variables are opaque.
  Derivation derive(const RuleInstance& instance, int steps);

  // Graphs by number, for those who walk them: numbers are equal when graphs are, and stay valid until the next
  // derive(). -1: the graph is ill-formed (a leaf without a name).
  int state(const Pcg& pcg);
  int state(const Pcg& side, const std::vector<ParallelShape>& variables);
  struct Neighbour {
    int state = -1;
    std::size_t rule = 0;
    bool backward = false;
  };
  // All graphs that are one application away, each once, in a fixed order.
  std::vector<Neighbour> neighbours(int state);
  Pcg graph(int state) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// One search by itself.
Derivation derive(const Pcg& from, const Pcg& to, std::span<const Rule> rules, int steps,
                  const DerivationOptions& options = {});

}  // namespace unity
