#include "runtime/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/settings.h"

namespace unity {

RateSchedule parse_schedule(std::string_view text) {
  Settings s = parse_settings("schedule", text,
                              {{"constant", {"warmup"}},
                               {"step", {"warmup", "gamma", "every"}},
                               {"linear", {"warmup", "min", "steps"}},
                               {"cosine", {"warmup", "min", "steps"}},
                               {"polynomial", {"warmup", "min", "steps", "power"}}});
  if (!s.numbers.empty())
    throw_input_error("schedule: found a number without a key in '{}', expected as in 'cosine steps=1000'", text);
  auto count = [&](const char* key, std::int64_t otherwise, std::int64_t least) {
    double value = s.value(key, static_cast<double>(otherwise));
    if (value != std::floor(value) || value < static_cast<double>(least) || value > 1e15)
      throw_input_error("schedule: {}: found {}, expected a whole number from {} to 1e15", key, number_text(value),
                        least);
    return static_cast<std::int64_t>(value);
  };
  RateSchedule schedule;
  schedule.kind = s.kind;
  schedule.warmup = count("warmup", 0, 0);
  schedule.min = s.value("min", 0);
  schedule.gamma = s.value("gamma", schedule.gamma);
  schedule.power = s.value("power", schedule.power);
  if (s.kind == "step" && !s.values.contains("every"))
    throw_input_error("schedule: found '{}', expected its steps, too, as in 'step every=30 gamma=0.1'", text);
  if (s.kind == "step") schedule.every = count("every", 0, 1);
  if (s.values.contains("steps")) {
    schedule.steps = count("steps", 0, 1);
    if (schedule.steps <= schedule.warmup)
      throw_input_error("schedule: steps: found {}, expected more than the {} of warm-up", schedule.steps,
                        schedule.warmup);
  }
  return schedule;
}

double learning_rate(const RateSchedule& s, double rate, std::int64_t step) {
  if (step < s.warmup) return rate * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (s.kind == "constant") return rate;
  if (s.kind == "step") {
    std::int64_t times = (step - s.warmup) / s.every;
    return rate * std::pow(s.gamma, static_cast<double>(times));
  }
  std::int64_t length = std::max<std::int64_t>(s.steps - s.warmup, 1);
  double p = std::min(static_cast<double>(step - s.warmup) / static_cast<double>(length), 1.0);
  if (s.kind == "linear") return rate + (s.min - rate) * p;
  if (s.kind == "cosine") return s.min + (rate - s.min) * (1 + std::cos(std::numbers::pi * p)) / 2;
  return s.min + (rate - s.min) * std::pow(1 - p, s.power);
}

}  // namespace unity
