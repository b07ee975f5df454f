// How far apart the quartiles of measured times are, as fractions of the times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/machine/profile.h"

namespace unity::cli {

class Spreads {
 public:
  // What has quartiles.
  void add(const ProfileSection& section);
  void add(const MeasuredCollectives& collectives);
  // None where nothing has.
  std::optional<double> median() const;
  std::optional<double> worst() const;

 private:
  void add(const std::vector<ProfilePoint>& curve);
  std::vector<double> all_;
};

// On standard error, where half of a profile's times spread so far that they say little.
void warn_of_spread(const DeviceProfile& profile, const std::string& file);

}  // namespace unity::cli
