#include "cli/profile_spread.h"

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"

namespace unity::cli {
namespace {

// Of half of the times: what else the machine does then counts for as much as what is measured.
constexpr double kMostSpread = 0.25;

}  // namespace

void Spreads::add(const ProfileSection& section) {
  for (const auto& [key, entry] : section.tasks)
    if (entry.samples > 1) all_.push_back(spread(entry));
  for (const auto& [name, curve] : section.curves) add(curve);
}

void Spreads::add(const MeasuredCollectives& collectives) {
  for (const auto& [name, curve] : collectives.times) add(curve);
}

void Spreads::add(const std::vector<ProfilePoint>& curve) {
  for (const ProfilePoint& point : curve)
    if (point.high > 0) all_.push_back(spread(point));
}

std::optional<double> Spreads::median() const {
  if (all_.empty()) return std::nullopt;
  std::vector<double> sorted = all_;
  auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::optional<double> Spreads::worst() const {
  if (all_.empty()) return std::nullopt;
  return *std::max_element(all_.begin(), all_.end());
}

void warn_of_spread(const DeviceProfile& profile, const std::string& file) {
  Spreads spreads;
  for (const auto& [threads, section] : profile.sections) spreads.add(section);
  if (profile.collectives) spreads.add(*profile.collectives);
  std::optional<double> median = spreads.median();
  if (!median || *median <= kMostSpread) return;
  fmt::print(stderr,
             "unity: warning: {}: half of the times spread over at least {:.0f}% of their median between the quartiles "
             "(expected at most {:.0f}%): the machine does something else, too; measure anew when it is idle\n",
             file, 100 * *median, 100 * kMostSpread);
}

}  // namespace unity::cli
