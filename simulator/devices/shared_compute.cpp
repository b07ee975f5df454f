#include "simulator/devices/shared_compute.h"

#include <algorithm>
#include <cmath>

namespace unity {

SharedCompute::SharedCompute(const Topology& topology)
    : shared_(topology.physical_devices.size()),
      physicals_(topology.physical_devices.size()),
      tasks_(topology.device_count()) {
  std::vector<int> logical(physicals_.size());
  for (const Device& d : topology.devices) {
    physical_.push_back(d.physical);
    ++logical[d.physical];
  }
  for (std::size_t p = 0; p < physicals_.size(); ++p) {
    physicals_[p].units = topology.physical_devices[p].units;
    physicals_[p].share = std::max(1.0, std::floor(physicals_[p].units / std::max(logical[p], 1)));
    shared_[p] = logical[p] > physicals_[p].units || physicals_[p].share > 1;
  }
}

void SharedCompute::touch(std::size_t physical) {
  if (physicals_[physical].touched) return;
  physicals_[physical].touched = true;
  touched_.push_back(physical);
}

void SharedCompute::start(DeviceId device, Picoseconds work, Picoseconds now) {
  Running& task = tasks_[device.index()];
  task.remaining = static_cast<double>(work.count);
  task.rate = 0;
  task.since = now;
  ++task.version;
  physicals_[physical_[device.index()]].busy.push_back(device);
  touch(physical_[device.index()]);
}

void SharedCompute::finish(DeviceId device) {
  std::erase(physicals_[physical_[device.index()]].busy, device);
  ++tasks_[device.index()].version;
  touch(physical_[device.index()]);
}

std::span<const DeviceId> SharedCompute::settle(Picoseconds now) {
  changed_.clear();
  for (std::size_t p : touched_) {
    Physical& physical = physicals_[p];
    physical.touched = false;
    double rate = std::min(physical.share, physical.units / static_cast<double>(physical.busy.size()));
    for (DeviceId d : physical.busy) {
      Running& task = tasks_[d.index()];
      if (task.rate == rate) continue;
      task.remaining = std::max(0.0, task.remaining - task.rate * static_cast<double>((now - task.since).count));
      task.since = now;
      task.rate = rate;
      task.end = now + Picoseconds{static_cast<std::int64_t>(std::ceil(task.remaining / rate - 1e-6))};
      ++task.version;
      changed_.push_back(d);
    }
  }
  touched_.clear();
  return changed_;
}

}  // namespace unity
