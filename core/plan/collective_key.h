// A collective as measured times know it (core/machine/measured_collectives.h): what kind, on what group, of how much.
//
//   all_reduce of 2 node x 4 gpu       by how the group lies in the machine; all of one name take equally long
//   all_to_all of 4 gpu, 6 of 12 pairs where not every device has something for every other
#pragma once

#include <span>
#include <string>

#include "core/machine/topology.h"
#include "core/plan/program.h"

namespace unity {

// Elements that its time is of: of elements_moved(), but where the pieces of an all_gather or reduce_scatter differ as
// many for each participant as the largest has. Both go in steps, in each of which some participant sends the largest
// piece, and the others wait.
std::int64_t elements_in_steps(const Communication& communication);

struct CollectiveKey {
  std::string name;
  double bytes = 0;  // of elements_in_steps()
};
CollectiveKey collective_key(const Communication& communication, const Topology& topology);
// Of an all_to_all: between all pairs.
std::string collective_name(CollectiveKind kind, std::span<const DeviceId> group, const Topology& topology);

}  // namespace unity
