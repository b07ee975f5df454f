// Logical devices that share a physical one of several units of compute (cores). Each may use its fair share of them,
// max(1, units / devices), as the runtime's devices do; k busy tasks run at the rate min(share, units / k) each, where
// 1 is the speed of one unit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

class SharedCompute {
 public:
  explicit SharedCompute(const Topology& topology);

  // Whether tasks of this device run at another speed than that of one unit; if not, they need not be started here.
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
    double units = 1, share = 1;
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
