// Shares of a machine for parts of a graph that run at the same time: consecutive devices each, cut where the machine's
// hierarchy has its boundaries.
//
// The halves are of the whole machine: the heaviest part and the rest, or about as much on each.
//
// Of all shares, each is cut in two, and each side again, so three equal parts have a third each in two cuts. Tried
// are, after the halves, cuts at the boundaries of each level that the share spans, from the outermost (nodes, sockets,
// devices) in, that are nearest below and above the proportion of the parts' work: of the heaviest to all, and of about
// half of it to the rest; and those that leave one of the two heaviest as many devices as it has tasks, where that is
// more than its proportion. Of few devices, all boundaries; of few parts there, all ways to give each a side or none.
// On more than 48 devices there are halves only: what is not alike from block to block takes too long to score there.
#pragma once

#include <cstdint>
#include <vector>

#include "core/machine/mapping.h"
#include "core/search/mapping_search.h"

namespace unity {

constexpr int kFewShared = 6;         // devices of a share that is cut at all its boundaries
constexpr int kMostShared = 48;       // devices of a machine that has shares other than its halves
constexpr std::size_t kFewParts = 3;  // for which all ways are tried then

// A part of a graph that nothing connects with the others.
struct PartNeeds {
  std::int64_t cost = 0;  // of its operators, one after the other
  int width = 1;          // the most tasks of one of them
};

enum class Side : std::uint8_t { first, second, neither };  // neither: before or after, alone on the whole share

struct ShareCut {
  Resources first, second;
  std::vector<Side> sides;  // by part; each side has one
  bool halves = false;      // of the whole machine
};

// What to try, halves first. No part is on a side that is smaller than its width.
std::vector<ShareCut> share_cuts(const Topology& topology, const Resources& share, const std::vector<PartNeeds>& parts,
                                 Shares shares = Shares::all);

// The first devices of all but the first part of a level that the share has devices of.
std::vector<int> share_boundaries(const Topology& topology, const Resources& share, std::size_t level);

}  // namespace unity
