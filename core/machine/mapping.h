// Machine mappings (paper, section 3.2, Fig. 7): where the tasks of an operator's grid run.
#pragma once

#include <string>
#include <vector>

#include "core/machine/topology.h"
#include "core/ops/parallel_shape.h"

namespace unity {

// device(coordinates) = start + sum_i coordinates[i] * strides[i], in the topology's device numbering: a stride of 1
// walks the innermost level, a stride of (devices per node) walks nodes. One stride per grid dimension. Injective.
struct MachineMapping {
  int start = 0;
  std::vector<int> strides;
  bool operator==(const MachineMapping&) const = default;
  auto operator<=>(const MachineMapping&) const = default;

  DeviceId device(const std::vector<int>& coordinates) const;
  // The device of every task, in grid order (first dimension major).
  std::vector<DeviceId> devices(const TaskGrid& grid) const;
};
std::string to_string(const MachineMapping& mapping);  // "start 0, strides [6, 1]"

// Error when the strides do not fit the grid, a task falls off the machine, or two tasks share a device.
Result<void> check_mapping(const MachineMapping& mapping, const TaskGrid& grid, int devices);

// A contiguous range of devices that a part of the graph may use.
struct Resources {
  int first = 0;
  int count = 1;
  auto operator<=>(const Resources&) const = default;
};

// The useful mappings of a grid on the given devices, without redundant ones: every order of the grid's dimensions
// (which one is innermost), packed from the first device, and packed at level boundaries (for example 2-way inside a
// socket although 3 fit). 1-D, 2-D and 3-D as in the paper's Fig. 7. Deterministic; the first is the natural one (last
// grid dimension innermost). Empty when the grid needs more devices than there are.
std::vector<MachineMapping> mappings(const TaskGrid& grid, const Topology& topology, const Resources& resources);

}  // namespace unity
