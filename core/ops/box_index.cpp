#include "core/ops/box_index.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/hash.h"

namespace unity {
namespace {

constexpr std::size_t kFewBoxes = 8;         // that are looked through one by one
constexpr std::size_t kMostCellsPerBox = 4;  // of a grid that is mostly empty

}  // namespace

std::size_t BoxHash::operator()(const Box& box) const {
  Hash h = mix(box.rank());
  for (std::size_t d = 0; d < box.rank(); ++d)
    h = (h ^ static_cast<Hash>(box.offset[d] * 0x9e3779b1 + box.extent[d])) * 0x100000001b3u;
  return h;
}

std::int64_t common_elements(const Box& a, const Box& b) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < a.rank() && elements > 0; ++d)
    elements *= std::max<std::int64_t>(
        0, std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]) - std::max(a.offset[d], b.offset[d]));
  return elements;
}

BoxIndex::BoxIndex(const std::vector<Box>& boxes) {
  numbers_.reserve(boxes.size());
  std::unordered_map<Box, int, BoxHash> known;
  for (const Box& box : boxes) {
    auto [it, inserted] = known.try_emplace(box, static_cast<int>(boxes_.size()));
    if (inserted) boxes_.push_back(box);
    numbers_.push_back(it->second);
  }
  if (boxes_.size() > kFewBoxes && !lay_on_grid()) cells_.clear();
}

bool BoxIndex::lay_on_grid() {
  std::size_t rank = boxes_[0].rank(), cells = 1;
  ranges_.resize(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    auto& ranges = ranges_[d];
    for (const Box& box : boxes_) {
      if (box.extent[d] == 0) return false;
      ranges.emplace_back(box.offset[d], box.offset[d] + box.extent[d]);
    }
    std::sort(ranges.begin(), ranges.end());
    ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
    for (std::size_t r = 1; r < ranges.size(); ++r)
      if (ranges[r].first < ranges[r - 1].second) return false;
    cells *= ranges.size();
    if (cells > kMostCellsPerBox * boxes_.size()) return false;
  }
  cells_.assign(cells, -1);
  for (std::size_t b = 0; b < boxes_.size(); ++b) {
    std::size_t cell = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto& ranges = ranges_[d];
      auto at = std::lower_bound(ranges.begin(), ranges.end(), std::pair(boxes_[b].offset[d], std::int64_t{0}));
      cell = cell * ranges.size() + static_cast<std::size_t>(at - ranges.begin());
    }
    cells_[cell] = static_cast<int>(b);
  }
  return true;
}

std::vector<int> BoxIndex::meeting(const Box& box) const {
  std::vector<int> found;
  if (cells_.empty()) {
    for (std::size_t b = 0; b < boxes_.size(); ++b)
      if (common_elements(boxes_[b], box) > 0) found.push_back(static_cast<int>(b));
    return found;
  }
  std::size_t rank = ranges_.size();
  std::vector<std::pair<std::size_t, std::size_t>> reach(rank);  // by dimension: ranges that meet the box, half-open
  for (std::size_t d = 0; d < rank; ++d) {
    const auto& ranges = ranges_[d];
    std::int64_t begin = box.offset[d], end = begin + box.extent[d];
    auto first = std::partition_point(ranges.begin(), ranges.end(), [&](const auto& r) { return r.second <= begin; });
    auto last = std::partition_point(first, ranges.end(), [&](const auto& r) { return r.first < end; });
    if (first == last || begin == end) return found;
    reach[d] = {static_cast<std::size_t>(first - ranges.begin()), static_cast<std::size_t>(last - ranges.begin())};
  }
  std::vector<std::size_t> at(rank);
  for (std::size_t d = 0; d < rank; ++d) at[d] = reach[d].first;
  while (true) {
    std::size_t cell = 0;
    for (std::size_t d = 0; d < rank; ++d) cell = cell * ranges_[d].size() + at[d];
    if (cells_[cell] >= 0) found.push_back(cells_[cell]);
    std::size_t d = rank;
    while (d > 0 && ++at[d - 1] == reach[d - 1].second) --d, at[d] = reach[d].first;
    if (d == 0) break;
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace unity
