// Which gradients share a collective: an attribute of the plan (core/plan/buckets.h), chosen for complete plans.
#pragma once

#include <optional>
#include <vector>

#include "core/search/strategy.h"

namespace unity {

constexpr Bytes kUsualBucket{25'000'000};  // what PyTorch's data parallelism takes (Li et al., 2020)

// Of the plans, with gradients joined in buckets of some sizes or each on its own, the fastest that fits; they are the
// fastest without, and others not much slower, which may gain more. None where no plan is faster, or the options of the
// search fix the size. All that were scored are appended to `scored`.
std::optional<Outcome> choose_buckets(const std::vector<Outcome>& plans, const StrategyInput& input,
                                      std::vector<Outcome>& scored);

}  // namespace unity
