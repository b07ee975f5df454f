// A device profile: what the tasks of Programs take on a machine, measured by `unity profile` and used by the simulator
// in place of the roofline. A YAML file, format "unity-profile"; docs/formats.md describes it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine/precision.h"
#include "core/machine/topology.h"

namespace unity {

// Seconds of a task alone on its device. Warm: its operands were the last thing touched. Cold: other data, more than
// the caches hold, were touched since.
struct ProfileEntry {
  double warm = 0, cold = 0;  // medians; lower quartiles where the times lie far apart
  double low = 0, high = 0;   // quartiles of the warm ones
  std::int64_t samples = 0;   // warm ones
  bool operator==(const ProfileEntry&) const = default;
};

// Seconds by amount (bytes, or elements of an update).
struct ProfilePoint {
  double amount = 0;
  double warm = 0, cold = 0;
  bool operator==(const ProfilePoint&) const = default;
};

// Warm and cold seconds at an amount: between two points interpolated over the logarithms of both; below the first as
// there; above the last in proportion to the amount.
struct TaskSeconds {
  double warm = 0, cold = 0;
};
TaskSeconds seconds_at(const std::vector<ProfilePoint>& curve, double amount);

// What logical devices with a number of threads do.
struct ProfileSection {
  int threads = 1;
  double task_overhead = 0;     // seconds between two tasks of a stream
  double handover = 0;          // seconds until a task notices the end of one on another stream
  double peak = 0;              // FLOP/s, the best found; 0: not measured
  double elementwise_peak = 0;  // FLOP/s of exponentials and the like
  double memory_bandwidth = 0;  // bytes/s, the best found
  // By operator (FLOPs), and "memory" (bytes): the fraction of the peak, of the memory bandwidth.
  std::map<std::string, std::vector<EfficiencyPoint>> efficiency;
  // "copy", "accumulate", "zero" (bytes of memory traffic), "update sgd" .. (elements), "all_reduce of 2" .. (bytes of
  // the whole piece).
  std::map<std::string, std::vector<ProfilePoint>> curves;
  std::map<std::string, ProfileEntry> tasks;  // by task key (core/plan/task_key.h)
};

class DeviceProfile {
 public:
  std::string device;  // what was measured, in words
  std::string date;    // of the last change, "2026-01-31"
  std::string backend = "cpu";
  Precision precision = Precision::f32;
  Bytes cache;                             // of the device, what it shares included
  std::map<int, ProfileSection> sections;  // by threads

  const ProfileSection* section(int threads) const;  // null where nothing was measured with so many
  std::size_t entries() const;
};

// InputError with file, line, column, found, expected.
DeviceProfile load_profile(const std::string& file);
std::string profile_to_yaml(const DeviceProfile& profile);
void save_profile(const DeviceProfile& profile, const std::string& file);  // atomically

// All devices of the topology are of this profile.
void use_profile(Topology& topology, const DeviceProfile& profile);

}  // namespace unity
