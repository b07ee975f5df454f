#include "runtime/validate.h"

#include <algorithm>

namespace unity {

Trace measure(const Program& program, const MeasureOptions& options) {
  Executor executor(program, options.executor);
  for (const auto& [name, value] : synthetic_batch(executor.inputs(), options.index_bounds, options.executor.seed, 0))
    executor.set_input(name, value);
  // Training on one batch over and over would soon end in gradients of denormal numbers, on which processors are slow.
  executor.set_learning_rate_factor(0);
  for (int i = 0; i < options.warm_up; ++i) executor.step();
  std::vector<Trace> traces;
  for (int i = 0; i < std::max(1, options.steps); ++i) traces.push_back(std::move(*executor.step(true).trace));
  auto which = static_cast<std::ptrdiff_t>(options.quantile * static_cast<double>(traces.size() - 1) + 0.5);
  auto chosen = traces.begin() + which;
  std::nth_element(traces.begin(), chosen, traces.end(),
                   [](const Trace& a, const Trace& b) { return a.iteration < b.iteration; });
  return std::move(*chosen);
}

}  // namespace unity
