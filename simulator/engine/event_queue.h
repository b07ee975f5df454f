// A queue of typed events by (integer picoseconds, sequence number): of events at one time, the one pushed first comes
// first, so that a simulation repeats exactly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/units.h"

namespace unity {

template <class Event>
class EventQueue {
 public:
  void reserve(std::size_t events) { heap_.reserve(events); }

  void push(Picoseconds time, const Event& event) {
    heap_.push_back({time, sequence_++, event});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  bool empty() const { return heap_.empty(); }
  Picoseconds next_time() const { return heap_.front().time; }

  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event event = heap_.back().event;
    heap_.pop_back();
    return event;
  }

 private:
  struct Entry {
    Picoseconds time;
    std::uint64_t sequence;
    Event event;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }

  std::vector<Entry> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace unity
