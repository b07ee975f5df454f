// Both sides of a rule with symbols for degrees and sizes: what their well-typedness asks for (see typing.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/rewrite/signature.h"

namespace unity {

// A product of symbols, each with its exponent (negative: divided by). Primes are symbols too: "2", "3".
using Monomial = std::map<std::string, int>;
Monomial operator*(const Monomial& a, const Monomial& b);
Monomial operator/(const Monomial& a, const Monomial& b);
Monomial monomial_of(std::int64_t positive);
std::string to_string(const Monomial& m);

struct Constraint {
  enum class Kind : std::uint8_t { equal, divides, at_most, less } kind = Kind::equal;
  Monomial left, right;
  std::string why;  // what asks for it
};

struct Constraints {
  std::vector<Constraint> assumed;                    // the source is well-typed, the conditions hold
  std::vector<Constraint> asked;                      // the target is well-typed
  std::vector<Constraint> shown;                      // the results agree
  std::map<std::string, std::vector<Monomial>> sums;  // symbols that stand for sums
};

// Error when an attribute of the target is out of reach.
Result<Constraints> typing_constraints(const Rule& rule, const RuleInstance& instance,
                                       const InstanceSignature& signature);

}  // namespace unity
