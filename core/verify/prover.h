// What both halves of a proof share: how long Z3 may take, and what it found.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace unity {

struct ProofLimit {
  double seconds = 5;
  std::string without;  // a stated axiom that the proof must not use
  // Z3 counts steps, about a million a second, so that a verdict does not depend on the machine.
  // At least one, since 0 is no limit to it.
  unsigned steps() const {
    return static_cast<unsigned>(std::clamp(seconds * 1e6, 1.0, double{std::numeric_limits<unsigned>::max()}));
  }
};

struct ProofAttempt {
  bool proved = false;
  std::string why;                // of what is not proved
  std::vector<std::string> used;  // names of the axioms in the proof
};

}  // namespace unity
