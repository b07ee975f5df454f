#include "core/search/mapping_shares.h"

#include <algorithm>

namespace unity {
namespace {

constexpr std::size_t kMostBoundaries = 8;

class Cuts {
 public:
  Cuts(const Topology& topology, const Resources& share, const std::vector<PartNeeds>& parts)
      : topology_(topology), share_(share), parts_(parts) {
    for (std::size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].width < share_.count) by_cost_.push_back(p);
    by_work_ = by_cost_;
    std::stable_sort(by_cost_.begin(), by_cost_.end(),
                     [&](std::size_t a, std::size_t b) { return parts_[a].cost > parts_[b].cost; });
    std::stable_sort(by_work_.begin(), by_work_.end(), [&](std::size_t a, std::size_t b) { return work(a) > work(b); });
  }

  std::vector<ShareCut> run(Shares shares) {
    if (by_cost_.size() < 2) return {};
    const auto machine = static_cast<int>(topology_.device_count());
    if (share_.count == machine) halves();
    if (machine > kMostShared || shares == Shares::halves) return std::move(found_);
    for (int boundary : boundaries()) {
      if (!balanced(boundary)) one_each(boundary);
      if (by_cost_.size() == 2) one_each(boundary);
      if (share_.count <= kFewShared && parts_.size() <= kFewParts) all_ways(boundary);
    }
    return std::move(found_);
  }

 private:
  double work(std::size_t part) const { return static_cast<double>(parts_[part].cost) * parts_[part].width; }

  // Those that are tried: near the proportions of work, of each level, the outermost first.
  std::vector<int> boundaries() const {
    std::vector<int> found;
    auto add = [&](int boundary) {
      if (found.size() < kMostBoundaries && std::find(found.begin(), found.end(), boundary) == found.end())
        found.push_back(boundary);
    };
    if (share_.count <= kFewShared) {
      for (int i = 1; i < share_.count; ++i) add(share_.first + i);
      return found;
    }
    double all = 0, even = 0;
    for (std::size_t p : by_work_) all += work(p);
    for (double other = 0; std::size_t p : by_work_) (even <= other ? even : other) += work(p);
    const DeviceId first(share_.first), last(share_.first + share_.count - 1);
    for (auto level = static_cast<std::size_t>(topology_.distance_level(first, last)); level < topology_.levels.size();
         ++level) {
      const std::vector<int> of_level = share_boundaries(topology_, share_, level);
      for (double part : {work(by_work_[0]), even}) {
        const double at = share_.first + (all > 0 ? part / all : 0.5) * share_.count;
        auto above = std::lower_bound(of_level.begin(), of_level.end(), at - 1e-6);
        if (above != of_level.end()) add(*above);
        if (above != of_level.begin() && (above == of_level.end() || *above > at + 1e-6)) add(*std::prev(above));
      }
    }
    for (std::size_t k = 0; k < 2; ++k) {
      const int width = parts_[by_work_[k]].width;
      if (width * all <= work(by_work_[k]) * share_.count) continue;
      add(share_.first + width), add(share_.first + share_.count - width);
    }
    return found;
  }

  ShareCut cut_at(int boundary) const {
    const int left = boundary - share_.first;
    return {{share_.first, left}, {boundary, share_.count - left}, {}};
  }

  // False: there is nothing on one of the sides.
  bool add(ShareCut cut) {
    for (Side side : {Side::first, Side::second})
      if (std::find(cut.sides.begin(), cut.sides.end(), side) == cut.sides.end()) return false;
    auto same = [&](const ShareCut& c) { return c.first == cut.first && c.sides == cut.sides; };
    if (std::none_of(found_.begin(), found_.end(), same)) found_.push_back(std::move(cut));
    return true;
  }

  // Those that fit on both: that which takes longest and all others; and the longest first, each where there is less.
  void halves() {
    ShareCut cut = cut_at(share_.first + share_.count / 2);
    cut.halves = true, cut.sides.assign(parts_.size(), Side::neither);
    ShareCut even = cut;
    std::int64_t first = 0, second = 0;
    bool one = false;
    for (std::size_t p : by_cost_) {
      if (parts_[p].width > cut.first.count) continue;
      cut.sides[p] = one ? Side::second : Side::first;
      even.sides[p] = first <= second ? Side::first : Side::second;
      (first <= second ? first : second) += parts_[p].cost;
      one = true;
    }
    add(std::move(cut)), add(std::move(even));
  }

  // The heaviest first, each to the side that has less work for each device then.
  bool balanced(int boundary) {
    ShareCut cut = cut_at(boundary);
    double load[2] = {0, 0};
    cut.sides.assign(parts_.size(), Side::neither);
    for (std::size_t p : by_work_) {
      double after[2];
      int best = -1;
      for (int s : {0, 1}) {
        const int devices = s == 0 ? cut.first.count : cut.second.count;
        if (parts_[p].width > devices) continue;
        after[s] = load[s] + work(p) / devices;
        if (best < 0 || after[s] < after[best]) best = s;
      }
      if (best < 0) continue;
      load[best] = after[best];
      cut.sides[p] = best == 0 ? Side::first : Side::second;
    }
    return add(std::move(cut));
  }

  // Of the two heaviest, one on each side, and the other way around.
  void one_each(int boundary) {
    for (auto [first, second] : {std::pair(by_work_[0], by_work_[1]), std::pair(by_work_[1], by_work_[0])}) {
      ShareCut cut = cut_at(boundary);
      if (parts_[first].width > cut.first.count || parts_[second].width > cut.second.count) continue;
      cut.sides.assign(parts_.size(), Side::neither);
      cut.sides[first] = Side::first, cut.sides[second] = Side::second;
      add(std::move(cut));
    }
  }

  void all_ways(int boundary) {
    std::size_t ways = 1;
    for (std::size_t p = 0; p < parts_.size(); ++p) ways *= 3;
    for (std::size_t way = 0; way < ways; ++way) {
      ShareCut cut = cut_at(boundary);
      bool fits = true;
      for (std::size_t p = 0, rest = way; p < parts_.size(); ++p, rest /= 3) {
        cut.sides.push_back(static_cast<Side>(rest % 3));
        if (cut.sides[p] != Side::neither)
          fits = fits && parts_[p].width <= (cut.sides[p] == Side::first ? cut.first : cut.second).count;
      }
      if (fits) add(std::move(cut));
    }
  }

  const Topology& topology_;
  const Resources& share_;
  const std::vector<PartNeeds>& parts_;
  std::vector<std::size_t> by_cost_, by_work_;  // parts, the heaviest first
  std::vector<ShareCut> found_;
};

}  // namespace

std::vector<int> share_boundaries(const Topology& topology, const Resources& share, std::size_t level) {
  std::vector<int> found;
  for (int d = share.first + 1; d < share.first + share.count; ++d)
    if (topology.part(level, DeviceId(d)) != topology.part(level, DeviceId(d - 1))) found.push_back(d);
  return found;
}

std::vector<ShareCut> share_cuts(const Topology& topology, const Resources& share, const std::vector<PartNeeds>& parts,
                                 Shares shares) {
  return parts.size() < 2 || share.count < 2 ? std::vector<ShareCut>() : Cuts(topology, share, parts).run(shares);
}

}  // namespace unity
