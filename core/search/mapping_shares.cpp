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

  std::vector<ShareCut> run() {
    if (by_cost_.size() < 2) return {};
    const auto machine = static_cast<int>(topology_.device_count());
    if (share_.count == machine) {
      const int middle = share_.first + share_.count / 2;
      heaviest_and_rest(middle);
      balanced(middle, false);
      for (ShareCut& cut : found_) cut.general = true;
    }
    if (machine > kMostShared) return std::move(found_);
    for (int boundary : boundaries()) {
      if (!balanced(boundary, true)) balanced(boundary, false);
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

  // Of those that fit on the first side, that which takes longest, on the second all others.
  void heaviest_and_rest(int boundary) {
    ShareCut cut = cut_at(boundary);
    bool one = false;
    cut.sides.assign(parts_.size(), Side::neither);
    for (std::size_t p : by_cost_) {
      if (parts_[p].width > cut.first.count) continue;
      cut.sides[p] = one ? Side::second : Side::first;
      one = true;
    }
    add(std::move(cut));
  }

  // The heaviest first, each to the side that has less: time of operators one after the other, or work for each device.
  bool balanced(int boundary, bool by_work) {
    ShareCut cut = cut_at(boundary);
    double load[2] = {0, 0};
    cut.sides.assign(parts_.size(), Side::neither);
    for (std::size_t p : by_work ? by_work_ : by_cost_) {
      double after[2];
      int best = -1;
      for (int s : {0, 1}) {
        const int devices = s == 0 ? cut.first.count : cut.second.count;
        if (parts_[p].width > devices) continue;
        after[s] = by_work ? load[s] + work(p) / devices : load[s];
        if (best < 0 || after[s] < after[best]) best = s;
      }
      if (best < 0) continue;
      load[best] = by_work ? after[best] : load[best] + static_cast<double>(parts_[p].cost);
      cut.sides[p] = best == 0 ? Side::first : Side::second;
    }
    return add(std::move(cut));
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

std::vector<ShareCut> share_cuts(const Topology& topology, const Resources& share,
                                 const std::vector<PartNeeds>& parts) {
  return parts.size() < 2 || share.count < 2 ? std::vector<ShareCut>() : Cuts(topology, share, parts).run();
}

}  // namespace unity
