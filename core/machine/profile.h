// A device profile: what the tasks of Programs take on a machine, and its collectives, measured by `unity profile` and
// used by the simulator in place of the roofline and of its model of links. A YAML file, format "unity-profile";
// docs/formats.md describes it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine/measured_collectives.h"
#include "core/machine/measured_times.h"
#include "core/machine/precision.h"
#include "core/machine/topology.h"

namespace unity {

// What logical devices with a number of threads do.
struct ProfileSection {
  int threads = 1;
  double task_overhead = 0;     // seconds between two tasks of a stream; negative where times hold more than tasks
  double handover = 0;          // seconds until a task notices the end of one on another stream
  double step_overhead = 0;     // seconds that a step takes beside its tasks: until the first starts, after the last
  double peak = 0;              // FLOP/s, the best found; 0: not measured
  double elementwise_peak = 0;  // FLOP/s of exponentials and the like
  double memory_bandwidth = 0;  // bytes/s, the best found
  // By operator (FLOPs), and "memory" (bytes): the fraction of the peak, of the memory bandwidth.
  std::map<std::string, std::vector<EfficiencyPoint>> efficiency;
  // "copy to host", "copy from host" (bytes moved), "copy", "accumulate", "zero" (bytes of memory traffic), "update
  // sgd" .. (elements), "all_reduce of 2" .. (bytes of the whole piece).
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
  std::map<int, ProfileSection> sections;  // by threads; of other backends than the CPU by 1
  std::optional<MeasuredCollectives> collectives;

  // Of devices that are to have so many threads; null where nothing was measured of such.
  const ProfileSection* section(int threads) const;
  int section_key(int threads) const { return backend == "cpu" ? threads : 1; }
  std::size_t entries() const;
};

// InputError with file, line, column, found, expected.
DeviceProfile load_profile(const std::string& file);
std::string profile_to_yaml(const DeviceProfile& profile);
void save_profile(const DeviceProfile& profile, const std::string& file);  // atomically

// What was measured of devices like this one, by its profile; null where nothing was.
const ProfileSection* section_of(const Topology& topology, DeviceId device);

// Whose times the devices have, "AMD EPYC, backend cpu in f32, 2026-01-31"; empty: none has any.
std::string profile_in_words(const Topology& topology);

// All devices of the topology are of this profile. InputError, which names file, line and column, where it holds
// collectives of another topology.
void use_profile(Topology& topology, const DeviceProfile& profile);

}  // namespace unity
