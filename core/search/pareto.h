// Pareto fronts of (time, memory).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace unity {

// Keeps the items that no other beats in both time and memory, fastest first; of more than `most`, those spread evenly
// over the front, its two ends among them. Ties go to the earlier item.
template <class T, class Time, class Memory>
void keep_pareto_front(std::vector<T>& items, std::size_t most, Time time, Memory memory) {
  std::stable_sort(items.begin(), items.end(), [&](const T& a, const T& b) {
    return std::pair(time(a), memory(a)) < std::pair(time(b), memory(b));
  });
  std::vector<T> front;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (T& item : items) {
    if (memory(item) >= least) continue;
    least = memory(item);
    front.push_back(std::move(item));
  }
  if (front.size() > most && most > 0) {
    std::vector<T> spread;
    for (std::size_t i = 0; i < most; ++i)
      spread.push_back(std::move(front[most == 1 ? 0 : i * (front.size() - 1) / (most - 1)]));
    front = std::move(spread);
  }
  items = std::move(front);
}

}  // namespace unity
