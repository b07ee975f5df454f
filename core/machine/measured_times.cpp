#include "core/machine/measured_times.h"

#include <cmath>

namespace unity {
namespace {

double interpolate(double x0, double y0, double x1, double y1, double x) {
  double t = std::log(x / x0) / std::log(x1 / x0);
  return std::exp(std::log(y0) * (1 - t) + std::log(y1) * t);
}

}  // namespace

ProfilePoint point_of(double amount, const ProfileEntry& entry) {
  return {amount, entry.warm, entry.cold, entry.low, entry.high};
}

double spread(const ProfileEntry& entry) { return entry.warm > 0 ? (entry.high - entry.low) / entry.warm : 0; }
double spread(const ProfilePoint& point) { return point.warm > 0 ? (point.high - point.low) / point.warm : 0; }

TaskSeconds seconds_at(const std::vector<ProfilePoint>& curve, double amount) {
  if (curve.empty()) return {};
  if (amount <= curve.front().amount) return {curve.front().warm, curve.front().cold};
  const ProfilePoint& last = curve.back();
  if (amount >= last.amount) return {last.warm * amount / last.amount, last.cold * amount / last.amount};
  std::size_t i = 1;
  while (curve[i].amount < amount) ++i;
  const ProfilePoint &a = curve[i - 1], &b = curve[i];
  return {interpolate(a.amount, a.warm, b.amount, b.warm, amount),
          interpolate(a.amount, a.cold, b.amount, b.cold, amount)};
}

}  // namespace unity
