// What the panel shows: the operators of a graph, counted by kind. Plain data, tested without a window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/pcg.h"

namespace unity::gui {

struct KindCount {
  std::string kind;
  std::int64_t count = 0;
  bool operator==(const KindCount&) const = default;
};

// Compute operators alone, the most frequent first, then by name.
std::vector<KindCount> count_kinds(const Pcg& pcg);

}  // namespace unity::gui
