// Machine mappings (paper, section 3.2, Fig. 7): where the tasks of an operator's grid run.
#pragma once

#include <string>
#include <vector>

#include "core/machine/topology.h"
#include "core/ops/parallel_shape.h"

namespace unity {

// place(coordinates) = start + sum_i coordinates[i] * strides[i]. Places are devices in the topology's numbering: a
// stride of 1 walks the innermost level, a stride of (devices per node) walks nodes. One stride per grid dimension. No
// two tasks have one place.
//
// With a table, places are numbers of its entries: devices in any order, a device perhaps several times. So devices of
// unequal speed get unequal shares: the grid has more tasks than there are devices, and what neighbouring tasks of one
// device do runs as one task (blocks).
struct MachineMapping {
  int start = 0;
  std::vector<int> strides;
  std::vector<int> places = {};  // device of each place; empty: places are devices
  bool operator==(const MachineMapping&) const = default;
  auto operator<=>(const MachineMapping&) const = default;

  int place(const std::vector<int>& coordinates) const;
  DeviceId device(const std::vector<int>& coordinates) const;
  // The device of every task, in grid order (first dimension major).
  std::vector<DeviceId> devices(const TaskGrid& grid) const;
};
// "start 0, strides [6, 1]", "start 0, strides [1] through devices [0, 0, 1]"
std::string to_string(const MachineMapping& mapping);

// Error when the strides do not fit the grid, a task falls off the machine or its table, two tasks have one place, or
// a device has tasks that are not one block.
Result<void> check_mapping(const MachineMapping& mapping, const TaskGrid& grid, int devices);

// Tasks that run as one: those from the coordinates `first` to the coordinates `last` in every dimension.
struct TaskBlock {
  DeviceId device;
  std::vector<int> first, last;
  bool operator==(const TaskBlock&) const = default;
};
// Neighbouring slices of the grid are joined where the mapping sends them to the same devices, task by task; but for
// those of summands that pass through, each of which is a task of its own. In grid order.
std::vector<TaskBlock> blocks(const MachineMapping& mapping, const TaskGrid& grid);

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
