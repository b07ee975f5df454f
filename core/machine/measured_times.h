// Times of tasks as a device profile (profile.h) has them: of single tasks, and by amount.
#pragma once

#include <cstdint>
#include <vector>

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
  double low = 0, high = 0;  // quartiles of the warm ones; 0: not known
  bool operator==(const ProfilePoint&) const = default;
};
ProfilePoint point_of(double amount, const ProfileEntry& entry);

// How far apart the quartiles are, as a fraction of the time; 0 where they are not known.
double spread(const ProfileEntry& entry);
double spread(const ProfilePoint& point);

// Warm and cold seconds at an amount: between two points interpolated over the logarithms of both; below the first as
// there; above the last in proportion to the amount.
struct TaskSeconds {
  double warm = 0, cold = 0;
};
TaskSeconds seconds_at(const std::vector<ProfilePoint>& curve, double amount);

}  // namespace unity
