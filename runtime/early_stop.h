// Which epoch was the best so far, and when to give up waiting for a better one.
#pragma once

#include <cstdint>
#include <optional>

namespace unity {

struct BestEpoch {
  std::optional<double> value;  // of the metric watched; none before the first evaluation
  std::int64_t epoch = 0;       // after how many epochs it was reached
  std::int64_t waited = 0;      // evaluations since without a better one
  bool operator==(const BestEpoch&) const = default;

  // The metric after `epochs` epochs. NaN is never better.
  void see(double metric, std::int64_t epochs, bool higher_is_better) {
    if (!value ? metric == metric : (higher_is_better ? metric > *value : metric < *value)) {
      value = metric, epoch = epochs, waited = 0;
    } else {
      ++waited;
    }
  }
  // Patience 0: never.
  bool give_up(std::int64_t patience) const { return patience > 0 && waited >= patience; }
};

}  // namespace unity
