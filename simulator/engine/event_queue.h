// A queue of typed events by (integer picoseconds, sequence number): of events at one time, the one pushed first comes
// first, so that a simulation repeats exactly. What is moved to keep the order are 16 bytes an event, whatever its
// type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"
#include "simulator/engine/heap.h"
#include "simulator/engine/held_bytes.h"

namespace unity {

template <class Event>
class EventQueue {
 public:
  void reserve(std::size_t events) {
    heap_.reserve(events);
    events_.reserve(events);
  }

  void push(Picoseconds time, const Event& event) {
    std::uint64_t slot;
    if (unused_.empty()) {
      slot = events_.size();
      UNITY_CHECK(slot < kSlots, "{} events are pending", slot);
      events_.push_back(event);
    } else {
      slot = unused_.back();
      unused_.pop_back();
      events_[slot] = event;
    }
    heap_.emplace_back();
    sift_up(heap_, heap_.size() - 1, Entry{time.count, sequence_++ * kSlots + slot}, kUntracked);
  }

  bool empty() const { return heap_.empty(); }
  Picoseconds next_time() const { return {heap_.front().time}; }

  Event pop() {
    auto slot = static_cast<std::uint32_t>(heap_.front().order % kSlots);
    Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(heap_, 0, last, kUntracked);
    unused_.push_back(slot);
    return events_[slot];
  }
  // pop()'s order, without popping.
  std::vector<std::pair<Picoseconds, Event>> pending() const {
    std::vector<Entry> entries = heap_;
    std::sort(entries.begin(), entries.end());
    std::vector<std::pair<Picoseconds, Event>> pending;
    pending.reserve(entries.size());
    for (const Entry& e : entries) pending.push_back({{e.time}, events_[e.order % kSlots]});
    return pending;
  }
  std::size_t bytes() const { return held_bytes(heap_, events_, unused_); }

 private:
  static constexpr std::uint64_t kSlots = std::uint64_t{1} << 27;  // leaves 2^37 sequence numbers

  struct Entry {
    std::int64_t time;
    std::uint64_t order;  // sequence number, slot in events_
    bool operator<(const Entry& other) const {
      return (time < other.time) | ((time == other.time) & (order < other.order));
    }
  };
  static constexpr auto kUntracked = [](const Entry&, std::size_t) {};

  std::vector<Entry> heap_;
  std::vector<Event> events_;  // by slot
  std::vector<std::uint32_t> unused_;
  std::uint64_t sequence_ = 0;
};

}  // namespace unity
