// A sweep in several processes: which points of its grid are whose.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/report/experiment.h"

namespace unity::report {

// The index-th of count parts, from 1; 1 of 1 is all.
struct Shard {
  int index = 1, count = 1;
  bool operator==(const Shard&) const = default;
};
std::string to_string(const Shard& shard);  // "2/8"

// "2/8", or "slurm": as the variables say. InputError.
using Variables = std::function<const char*(const char*)>;  // such as std::getenv
Shard parse_shard(const std::string& text, const Variables& variable);

// The shard of each point, from 1, of this number of them. Every point is in one; it is the same wherever and whenever
// it is asked for, and depends on the grid and the number alone. Shards differ by one point at most, and by the work
// of one point at most, as far as it can be told beforehand.
std::vector<int> shards_of(const std::vector<GridPoint>& grid, int count);

// What a search of this point takes, of the others' of its grid: searches far more than fixed strategies, and the more
// devices, the longer.
double estimated_work(const GridPoint& point);

}  // namespace unity::report
