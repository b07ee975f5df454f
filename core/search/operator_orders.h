// The orders in which a graph's operators may stand. A device runs its tasks in the order of the graph (forward; the
// backward pass goes the other way), so that where operators do not wait for one another, a plan may be faster in
// another order.
#pragma once

#include <vector>

#include "core/graph/pcg.h"

namespace unity {

struct Ordered {
  Pcg pcg;
  std::vector<NodeId> was;  // by node: which one it is of the graph given
};

// All orders of operators that compute, the given one first; no more than `most`. Others stand before the first
// operator that needs them, leaves before all operators.
std::vector<Ordered> operator_orders(const Pcg& pcg, std::size_t most);

}  // namespace unity
