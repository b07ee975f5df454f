// Which epoch was the best so far, and when to give up waiting for a better one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace unity {

struct BestEpoch {
  std::string metric;           // what is watched: accuracy or loss
  std::optional<double> value;  // of it; none before the first evaluation
  std::int64_t epoch = 0;       // after how many epochs it was reached
  std::int64_t waited = 0;      // evaluations since without a better one
  bool operator==(const BestEpoch&) const = default;

  // Values of another metric say nothing of this one.
  void watch(const std::string& what) {
    if (metric != what) *this = {what, {}, 0, 0};
  }
  // The metric after `epochs` epochs. NaN is never better.
  void see(double now, std::int64_t epochs, bool higher_is_better) {
    if (!value ? now == now : (higher_is_better ? now > *value : now < *value)) {
      value = now, epoch = epochs, waited = 0;
    } else {
      ++waited;
    }
  }
  // Patience 0: never.
  bool give_up(std::int64_t patience) const { return patience > 0 && waited >= patience; }
};

}  // namespace unity
