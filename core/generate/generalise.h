// From a pair of equal graphs at degree 2 to a rule: degrees become variables, other attributes where both sides agree,
// dimensions where any will do; side conditions are those without which a random instance contradicts the rule. (An
// ill-typed target is no contradiction: there the rule is not applied, see core/rewrite/apply.h.)
#pragma once

#include <string>
#include <vector>

#include "core/generate/pattern.h"

namespace unity {

struct GeneraliseOptions {
  std::uint64_t seed = 1;
  int instances = 32;  // random instances that a form of the rule must stand, at each step
};

struct Generalised {
  // Forms of the rule, the most general first; a more cautious one follows for the case that it can not be proved.
  std::vector<Rule> forms;
  std::string why;  // no form: what the literal rule's instances show
};

Generalised generalise(const PairPattern& pattern, const std::string& name, const GeneraliseOptions& options = {});

// No instance contradicts the rule, and there are some. `why` gets the reason otherwise. With `varied`, the name of an
// attribute of the rule, some instance must have another value of it than `from`.
bool plausible(const Rule& rule, const GeneraliseOptions& options, std::string* why = nullptr,
               const std::string& varied = {}, const AttributeValue& from = {});

}  // namespace unity
