// What follows from equations between products of positive numbers by eliminating symbols, without a solver: most
// questions of typing (typing.h) are of this kind. Exponents are rational here: where a power of a ratio is 1, or a
// whole number, so is the ratio.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/verify/layouts.h"

namespace unity {

class Elimination {
 public:
  explicit Elimination(const std::vector<Constraint>& assumed);

  // Whether the constraint follows: an equation from the assumed ones, another from them and one assumed bound at most.
  // False says nothing.
  bool shows(const Constraint& c);

 private:
  using Exponents = Integers;  // by symbol; those at the end may be left out
  struct Equation {
    std::size_t pivot;  // with a positive exponent here and none in the other equations
    Exponents ratio;
  };
  struct Bound {
    Constraint::Kind kind;
    Exponents ratio;  // right / left
  };

  Exponents ratio(const Constraint& c);
  // A power of the product in which no pivot occurs; nullopt where exponents grow too large.
  std::optional<Exponents> reduced(Exponents product) const;
  void add(Exponents equation);

  std::map<std::string, std::size_t> symbols_;
  std::vector<Equation> equations_;
  std::vector<Bound> bounds_;
};

}  // namespace unity
