// What a simulated iteration asks of the network: the busiest links with the collectives that use them, and which
// algorithms were chosen for which collectives, with the reason.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "simulator/prepared.h"
#include "simulator/simulate.h"

namespace unity {

struct BusyLink {
  LinkId link;
  std::string name;
  LinkKind kind = LinkKind::nvlink;
  BytesPerSecond bandwidth;
  Bytes bytes;
  double mean = 0, peak = 0;                      // use over the iteration, as a fraction of the bandwidth
  std::int64_t like_it = 0;                       // further links of the same kind and bandwidth, used as much
  std::vector<std::pair<std::string, Bytes>> by;  // "backward all_reduce (ring)", most bytes first
};
// Those with the highest mean use, at most `count`, each the first of those like it. `trace` has links.
std::vector<BusyLink> busiest_links(const PreparedProgram& prepared, const Topology& topology, const Trace& trace,
                                    std::size_t count);

// Communications of one kind among so many devices for which the same was chosen.
struct CollectiveSummary {
  CollectiveKind kind = CollectiveKind::send;
  std::size_t participants = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  std::string protocol;  // empty: plain links
  ChoiceReason reason = ChoiceReason::only;
  std::int64_t count = 0;
  Bytes smallest, largest;                          // S, of shapes.h
  Picoseconds idle;                                 // sum of what they take alone on the idle machine
  std::vector<CollectiveAlternative> alternatives;  // for the largest one, the chosen one first
};
// The longest first. Communications that move nothing, or whose times are measured, are left out.
std::vector<CollectiveSummary> summarise_collectives(const PreparedProgram& prepared);

}  // namespace unity
