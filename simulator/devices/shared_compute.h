// Logical devices that share a physical one: k busy tasks on `units` units of compute each run at the rate min(1, units
// / k).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

class SharedCompute {
 public:
  explicit SharedCompute(const Topology& topology);

  // Whether tasks of this device can be slowed by others; if not, they need not be started here.
  bool shared(DeviceId device) const { return shared_[physical_[device.index()]]; }

  // One task at a time on a logical device: `work` is its time alone.
  void start(DeviceId device, Picoseconds work, Picoseconds now);
  void finish(DeviceId device);

  // The devices whose task now ends at another time; valid until the next call.
  std::span<const DeviceId> settle(Picoseconds now);
  Picoseconds end(DeviceId device) const { return tasks_[device.index()].end; }
  std::uint32_t version(DeviceId device) const { return tasks_[device.index()].version; }

 private:
  struct Running {
    double remaining = 0;  // picoseconds alone, at `since`
    double rate = 0;
    Picoseconds since, end;
    std::uint32_t version = 0;
  };
  struct Physical {
    double units = 1;
    std::vector<DeviceId> busy;
    bool touched = false;
  };
  void touch(std::size_t physical);

  std::vector<std::size_t> physical_;  // by device
  std::vector<bool> shared_;           // by physical device
  std::vector<Physical> physicals_;
  std::vector<Running> tasks_;  // by device
  std::vector<std::size_t> touched_;
  std::vector<DeviceId> changed_;
};

}  // namespace unity
