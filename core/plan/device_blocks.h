// Devices of which a few stand for all. Where operators are cut into equal parts that walk blocks of devices, and the
// machine looks the same from each block, blocks with the same operators do the same. Lowering one block of each kind
// says what each does and what the blocks exchange, in a fraction of the time: LowerOptions::blocks.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/machine/mapping.h"

namespace unity {

class Pcg;

// Blocks of `size` consecutive devices, of which some are lowered; size 0: all devices.
struct LoweredBlocks {
  int size = 0;
  std::vector<int> stands_for;  // by block: the one that is lowered in its place
  // Where operators are in several places, as stages are, a few devices tell the time nearly (of stages to within some
  // 1e-4), and, where some parts of weights are an element larger, no less than the memory that others need.
  bool exact = true;
  // Links that are used inside a block, and which block that is.
  std::shared_ptr<const std::unordered_map<LinkId, int>> owners = {};

  bool all() const { return size == 0; }
  // How many a block stands for; 0 when it is not lowered itself.
  std::vector<int> alike() const {
    std::vector<int> counts(stands_for.size(), 0);
    for (int b : stands_for) ++counts[static_cast<std::size_t>(b)];
    return counts;
  }
  int block(DeviceId device) const { return device.value / size; }
  int lowered(DeviceId device) const { return stands_for[static_cast<std::size_t>(block(device))]; }
  bool contains(DeviceId device) const { return all() || lowered(device) == block(device); }
};

// Of the forward pass, and about twice as many of the backward pass, on the devices that are lowered.
double about_tasks(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const LoweredBlocks& blocks = {});

// Thread-safe: what is found out about the machine is kept.
class DeviceBlocks {
 public:
  explicit DeviceBlocks(const Topology& topology) : topology_(topology) {}

  // The smallest blocks, as few as possible lowered; all devices where that would save little.
  LoweredBlocks find(const Pcg& pcg, const std::vector<MachineMapping>& mappings) const;
  // Whether blocks of so many devices are built alike, and what moves inside one leaves the links of the others alone.
  bool are_alike(int block) const { return alike(block) != nullptr; }

 private:
  using Owners = std::shared_ptr<const std::unordered_map<LinkId, int>>;
  Owners alike(int block) const;
  bool leave_by_own_links(int block) const;

  const Topology& topology_;
  mutable std::mutex mutex_;
  mutable std::map<int, Owners> alike_;  // by devices of a block; null: they are not
  mutable std::map<int, bool> leave_by_own_links_;
};

}  // namespace unity
