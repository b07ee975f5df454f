// Degrees as variables: which occurrences of degree 2 in a pair of equal graphs are the same.
#pragma once

#include "core/generate/pattern.h"

namespace unity {

// Writes degrees as d, e, .. in `attributes`: as many different ones as typing allows. Typing conditions are equations
// and divisibilities of products of degrees, so different primes for different variables tell what holds for all
// (core/verify proves it). A degree stays a literal where typing fixes it (the number of stacked summands), and 1
// always. True when some degree became a variable.
bool name_degrees(const PairPattern& pattern, AttributeTexts& attributes);

}  // namespace unity
