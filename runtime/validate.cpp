#include "runtime/validate.h"

#include <algorithm>
#include <cstring>

#include "runtime/agreement.h"

namespace unity {

namespace {

// Of each step, by the process that took longest.
std::vector<Picoseconds> longest(const std::vector<double>& mine, Processes& processes) {
  std::vector<Picoseconds> times(mine.size());
  for (const std::vector<std::byte>& bytes : processes.all_gather(std::as_bytes(std::span(mine)), "the times of steps"))
    for (std::size_t i = 0; i < times.size(); ++i) {
      double seconds = 0;
      UNITY_CHECK(bytes.size() == mine.size() * sizeof seconds, "a process sent {} bytes", bytes.size());
      std::memcpy(&seconds, bytes.data() + i * sizeof seconds, sizeof seconds);
      times[i] = std::max(times[i], from_seconds(seconds));
    }
  return times;
}

}  // namespace

Measurement measure(const Program& program, const MeasureOptions& options) {
  Agreement(options.executor.processes)
      .require_equal("how to measure", fmt::format("{} steps after {} to warm up, of which counts that at {}",
                                                   options.steps, options.warm_up, options.quantile));
  Executor executor(program, options.executor);
  for (const auto& [name, value] : synthetic_batch(executor.inputs(), options.index_bounds, options.executor.seed, 0))
    executor.set_input(name, value);
  // Training on one batch over and over would soon end in gradients of denormal numbers, on which processors are slow.
  executor.set_learning_rate_factor(0);
  for (int i = 0; i < options.warm_up; ++i) executor.step();
  std::vector<Trace> traces;
  std::vector<double> seconds;
  for (int i = 0; i < std::max(1, options.steps); ++i) {
    if (executor.tracing_costs()) {
      executor.processes().barrier("the start of a step");
      seconds.push_back(executor.step().seconds);
    }
    traces.push_back(std::move(*executor.step(true).trace));
  }
  auto which = static_cast<std::ptrdiff_t>(options.quantile * static_cast<double>(traces.size() - 1) + 0.5);
  auto chosen = traces.begin() + which;
  std::nth_element(traces.begin(), chosen, traces.end(),
                   [](const Trace& a, const Trace& b) { return a.iteration < b.iteration; });
  if (seconds.empty()) return {chosen->iteration, std::move(*chosen)};
  std::vector<Picoseconds> times = longest(seconds, executor.processes());
  std::nth_element(times.begin(), times.begin() + which, times.end());
  return {times[static_cast<std::size_t>(which)], std::move(*chosen)};
}

}  // namespace unity
