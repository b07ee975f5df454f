#include "simulator/collectives/direct_rings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace unity {
namespace {

constexpr std::size_t kMost = 8;

// Depth-first: one cycle after the other, each not before the last one in lexicographic order, so that no set is tried
// in two orders. A cycle begins at 0, and its second place is smaller than its last.
class CycleSearch {
 public:
  using Cycle = std::vector<std::uint8_t>;

  CycleSearch(std::size_t n, const std::array<std::array<int, kMost>, kMost>& units) : n_(n), units_(units) {
    bound_ = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < n; ++i) {
      int sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += units[i][j];
      bound_ = std::min(bound_, static_cast<std::size_t>(sum) / 2);
    }
  }

  std::vector<Cycle> run() {
    begin_cycle();
    return best_;
  }

 private:
  void begin_cycle() {
    Cycle cycle = {0};
    extend(cycle, 1);
  }

  bool done() const { return best_.size() == bound_ || visited_ > kVisits; }

  void extend(Cycle& cycle, std::uint32_t used) {
    if (done()) return;
    ++visited_;
    std::uint8_t last = cycle.back();
    if (cycle.size() == n_) {
      if (units_[last][0] == 0 || cycle[1] > last || (!found_.empty() && cycle < found_.back())) return;
      take(cycle, -1);
      found_.push_back(cycle);
      if (found_.size() > best_.size()) best_ = found_;
      begin_cycle();
      found_.pop_back();
      take(cycle, 1);
      return;
    }
    for (std::uint8_t next = 1; next < n_; ++next) {
      if ((used >> next & 1) || units_[last][next] == 0) continue;
      cycle.push_back(next);
      extend(cycle, used | 1u << next);
      cycle.pop_back();
    }
  }

  void take(const Cycle& cycle, int count) {
    for (std::size_t i = 0; i < n_; ++i) {
      std::uint8_t a = cycle[i], b = cycle[(i + 1) % n_];
      units_[a][b] += count;
      units_[b][a] += count;
    }
  }

  static constexpr std::int64_t kVisits = 2'000'000;
  std::size_t n_, bound_ = 0;
  std::array<std::array<int, kMost>, kMost> units_;
  std::vector<Cycle> found_, best_;
  std::int64_t visited_ = 0;
};

}  // namespace

std::vector<std::vector<DeviceId>> direct_rings(const Topology& topology, std::span<const DeviceId> group) {
  std::size_t n = group.size();
  if (n < 3 || n > kMost) return {};
  std::array<std::array<double, kMost>, kMost> rates{};
  double unit = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      std::vector<LinkId> route = topology.route(group[i], group[j]);
      if (route.size() != 1) continue;
      rates[i][j] = topology.links[route[0].index()].bandwidth.rate;
      unit = std::min(unit, rates[i][j]);
    }
  std::array<std::array<int, kMost>, kMost> units{};
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      units[i][j] = static_cast<int>(std::min(std::min(rates[i][j], rates[j][i]) / unit * (1 + 1e-9), 1e6));
  std::vector<std::vector<DeviceId>> rings;
  for (const CycleSearch::Cycle& cycle : CycleSearch(n, units).run()) {
    std::vector<DeviceId>& ring = rings.emplace_back();
    for (std::uint8_t place : cycle) ring.push_back(group[place]);
    std::vector<DeviceId> back(ring.rbegin(), ring.rend());
    rings.push_back(std::move(back));
  }
  return rings;
}

}  // namespace unity
