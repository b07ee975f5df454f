// Learning-rate schedules: the rate of each step, from the optimizer's rate. Steps count from 0; the first `warmup`
// steps rise linearly to the full rate, and what follows counts from there: with t = step - warmup and
// p = min(t / (steps - warmup), 1),
//   constant    rate
//   step        rate gamma^floor(t / every)
//   linear      rate + (min - rate) p
//   cosine      min + (rate - min) (1 + cos(pi p)) / 2          (Loshchilov and Hutter 2017, without restarts)
//   polynomial  min + (rate - min) (1 - p)^power
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unity {

struct RateSchedule {
  std::string kind = "constant";
  std::int64_t warmup = 0;
  std::int64_t steps = 0;  // in which it ends at `min`, warm-up included; 0: as many as the run has
  double min = 0;          // a learning rate, not a factor
  double gamma = 0.1;      // step
  std::int64_t every = 0;  // step
  double power = 1;        // polynomial
  bool operator==(const RateSchedule&) const = default;
};

// "cosine warmup=100 min=1e-5 steps=1000", "step every=30 gamma=0.1", "polynomial power=2", "linear", "constant".
// InputError names what was found.
RateSchedule parse_schedule(std::string_view text);

// The learning rate of a step. `schedule.steps` is set, or the schedule does not need it.
double learning_rate(const RateSchedule& schedule, double rate, std::int64_t step);

}  // namespace unity
