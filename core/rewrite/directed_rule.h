// A rule as an equation that can be used from left to right or from right to left, made ready for matching against
// terms (shared_terms.h).
#pragma once

#include <optional>

#include "core/rewrite/rule.h"

namespace unity {

struct DirectedRule {
  // Attributes of the source are absent, constants or variables; others became conditions. Outputs of the source may be
  // variables (of a rule x => .. that is used to introduce operators), unlike those of a rule that was parsed.
  Rule rule;
  std::size_t index = 0;  // of the rule that it was made from
  bool backward = false;  // its target stands for its source

  // Attribute variables in the order in which they get values once the source is matched: those for which a condition
  // `variable == expression` says the value, then those that must be chosen.
  struct Solved {
    int variable = -1;
    int condition = -1;  // index into rule.conditions
    bool left = true;    // the variable is its left side
  };
  std::vector<Solved> solved;
  enum class Role : std::uint8_t { degree, dimension, number };
  struct Chosen {
    int variable = -1;
    Role role = Role::degree;
  };
  std::vector<Chosen> chosen;

  bool introduces() const { return rule.source_outputs.size() == 1 && rule.source_outputs[0].variable >= 0; }
};

// From left to right, and from right to left if that is possible: both sides bind the same variables, conditions speak
// of values that the target has too, and nothing but integers would have to be chosen.
std::optional<DirectedRule> forward(const Rule& rule, std::size_t index);
std::optional<DirectedRule> backward(const Rule& rule, std::size_t index);

}  // namespace unity
