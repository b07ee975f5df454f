// Questions about graphs that the PCG panel answers.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace unity::gui {

// Operators whose name or label has all words of the query, ignoring case; those that compute first. "kind:matmul"
// looks at the operator alone, "degree>1" at cut results.
std::vector<NodeId> search_nodes(const Pcg& pcg, const std::string& query);

// All nodes on directed paths from one to the other, in either direction, both included; empty: there is none.
std::vector<NodeId> nodes_between(const Pcg& pcg, NodeId a, NodeId b);

// Operators and stored weights that have a task or a part on the device.
std::vector<NodeId> nodes_on_device(const Plan& plan, DeviceId device);

// What is in `after` and not in `before`, and the other way round; `changed` has another operator's attributes, layout
// or operands. Nodes are the same when operator and label are (and how often they occurred before).
struct PcgDiff {
  std::vector<NodeId> added, changed;  // of `after`
  std::vector<NodeId> removed;         // of `before`
};
PcgDiff diff_graphs(const Pcg& before, const Pcg& after);

}  // namespace unity::gui
