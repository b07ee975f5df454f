// Pareto fronts of (time, memory).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace unity {

// Keeps the items that no other beats in both time and memory, fastest first; what does not fit beats nothing that
// does. Of more than `most` items, those spread evenly over the front, its two ends among them. Ties go to the earlier
// item.
template <class T, class Time, class Memory, class Fits>
void keep_pareto_front(std::vector<T>& items, std::size_t most, Time time, Memory memory, Fits fits) {
  std::stable_sort(items.begin(), items.end(), [&](const T& a, const T& b) {
    return std::pair(time(a), memory(a)) < std::pair(time(b), memory(b));
  });
  std::vector<T> front;
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), least_that_fits = least;
  for (T& item : items) {
    const bool fit = fits(item);
    if (memory(item) >= (fit ? least_that_fits : least)) continue;
    if (fit) least_that_fits = memory(item);
    least = std::min(least, memory(item));
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

// Where it makes no difference what fits.
template <class T, class Time, class Memory>
void keep_pareto_front(std::vector<T>& items, std::size_t most, Time time, Memory memory) {
  keep_pareto_front(items, most, time, memory, [](const T&) { return true; });
}

}  // namespace unity
