// A rule as a picture: source and target side by side, the variables they share between them.
#pragma once

#include <string>

#include "core/rewrite/rule.h"

namespace unity {

// In Graphviz's language, for dot.
std::string to_dot(const Rule& rule);

// An operator of it with the attributes that it names: "partition(0, d)".
std::string in_words(const Rule& rule, const PatternNode& node);

}  // namespace unity
