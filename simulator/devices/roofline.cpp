#include "simulator/devices/roofline.h"

#include <algorithm>

#include "core/base/longest_time.h"
namespace unity {

Picoseconds roofline_time(const DeviceSpec& device, double flops, double bytes, DType dtype, double added) {
  constexpr double kExponentials = 0.5, kContraction = 2;  // FLOPs for each byte
  double f32 = device.peak.at(DType::f32).rate;
  auto found = device.peak.find(dtype);
  double peak = found == device.peak.end() ? f32 : found->second.rate;
  double compute = 0, memory = 0;
  if (device.elementwise_peak.rate > 0 && flops < kContraction * (bytes - added))
    compute = flops < kExponentials * (bytes - added) ? 0 : flops / (device.elementwise_peak.rate * peak / f32);
  else if (flops > 0)
    compute = flops / (peak * efficiency_at(device.matmul_efficiency, flops));
  if (bytes > 0) memory = bytes / (device.memory_bandwidth.rate * efficiency_at(device.memory_efficiency, bytes));
  return device.launch_overhead + bounded_seconds(std::max(compute, memory));
}

}  // namespace unity
