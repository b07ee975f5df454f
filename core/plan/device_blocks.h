// Devices of which a few stand for all. Where operators are cut into equal parts that walk blocks of devices, and the
// machine looks the same from each block, blocks with the same operators do the same. Lowering one block of each kind
// says what each does and what the blocks exchange, in a fraction of the time: LowerOptions::blocks.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "core/machine/mapping.h"

namespace unity {

class Pcg;

// Blocks of `size` consecutive devices, of which some are lowered; size 0: all devices.
struct LoweredBlocks {
  int size = 0;
  std::vector<int> stands_for;  // by block: the one that is lowered in its place

  bool all() const { return size == 0; }
  int block(DeviceId device) const { return device.value / size; }
  int lowered(DeviceId device) const { return stands_for[static_cast<std::size_t>(block(device))]; }
  bool contains(DeviceId device) const { return all() || lowered(device) == block(device); }
};

// Thread-safe: what is found out about the machine is kept.
class DeviceBlocks {
 public:
  explicit DeviceBlocks(const Topology& topology) : topology_(topology) {}

  // The smallest blocks, as few as possible lowered; all devices where that would save little.
  LoweredBlocks find(const Pcg& pcg, const std::vector<MachineMapping>& mappings) const;

 private:
  bool alike(int block) const;

  const Topology& topology_;
  mutable std::mutex mutex_;
  mutable std::map<int, bool> alike_;  // by devices of a block
};

}  // namespace unity
