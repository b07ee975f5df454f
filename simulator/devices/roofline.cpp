#include "simulator/devices/roofline.h"

#include <algorithm>

namespace unity {

Picoseconds roofline_time(const DeviceSpec& device, double flops, double bytes, DType dtype) {
  auto found = device.peak.find(dtype);
  double peak = found == device.peak.end() ? device.peak.at(DType::f32).rate : found->second.rate;
  double compute = flops > 0 ? flops / (peak * efficiency_at(device.matmul_efficiency, flops)) : 0;
  double memory =
      bytes > 0 ? bytes / (device.memory_bandwidth.rate * efficiency_at(device.memory_efficiency, bytes)) : 0;
  return device.launch_overhead + from_seconds(std::max(compute, memory));
}

}  // namespace unity
