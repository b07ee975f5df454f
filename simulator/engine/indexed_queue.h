// A queue of times, at most one for each index (a flow, a user of compute), that can be moved while they wait. Of equal
// times the lowest index comes first, so that a simulation repeats exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/units.h"
#include "simulator/engine/heap.h"

namespace unity {

class IndexedQueue {
 public:
  // Adds the index, or moves it to another time.
  void set(std::uint32_t index, Picoseconds time) {
    if (index >= positions_.size()) positions_.resize(index + 1, kAbsent);
    Entry entry{time.count, index};
    std::size_t position = positions_[index];
    if (position == kAbsent) {
      position = heap_.size();
      heap_.emplace_back();
      sift_up(heap_, position, entry, track());
    } else if (entry < heap_[position]) {
      sift_up(heap_, position, entry, track());
    } else {
      sift_down(heap_, position, entry, track());
    }
  }

  bool empty() const { return heap_.empty(); }
  Picoseconds next_time() const { return {heap_.front().time}; }

  std::uint32_t pop() {
    std::uint32_t index = heap_.front().index;
    Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(heap_, 0, last, track());
    positions_[index] = kAbsent;
    return index;
  }

 private:
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

  struct Entry {
    std::int64_t time = 0;
    std::uint32_t index = 0;
    bool operator<(const Entry& other) const {
      return (time < other.time) | ((time == other.time) & (index < other.index));
    }
  };
  struct Track {
    std::uint32_t* positions;
    void operator()(const Entry& entry, std::size_t position) const {
      positions[entry.index] = static_cast<std::uint32_t>(position);
    }
  };
  Track track() { return {positions_.data()}; }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> positions_;  // by index
};

}  // namespace unity
