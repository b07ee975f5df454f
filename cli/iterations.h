// --iterations: steps of a plan that follow each other, and what one takes among them.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/plan/plan.h"
#include "simulator/analysis/steady_state.h"
#include "simulator/simulate.h"

namespace CLI {
class App;
}

namespace unity::cli {

struct IterationOptions {
  int iterations = 0;  // 0: 4 where steps overlap (weight versions 2bw), else 1

  void add(CLI::App& command);
  int count(const Schedule& schedule) const;
};

// InputError when there are more iterations than a Program can have.
Program several_iterations(const Plan& plan, const Program& step, int iterations);

// Of a Program of several iterations, the result's iteration becomes the steady one. The result has a trace.
SteadyState take_steady_iteration(const Program& program, SimulationResult& result);

// "12 ms for a step among 4 that follow each other, of which the busiest device is idle 3.0% of what it computes; they
// end at 20 ms, ..".
std::string steady_text(const SteadyState& steady);
// iterations, iteration_ends_seconds, bubble.
nlohmann::ordered_json steady_json(const SteadyState& steady);

}  // namespace unity::cli
