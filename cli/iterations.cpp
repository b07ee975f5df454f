#include "cli/iterations.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "core/base/text.h"
#include "core/plan/repeat.h"

namespace unity::cli {

void IterationOptions::add(CLI::App& command) {
  at_least_one(command.add_option("--iterations", iterations,
                                  "Steps that follow each other, as far as they depend on each other; reported is what "
                                  "one takes among them (default: 4 with --weight-versions 2bw, else 1)"));
}

int IterationOptions::count(const Schedule& schedule) const {
  return iterations > 0 ? iterations : schedule.weights == WeightVersions::delayed ? kSteadyIterations : 1;
}

Program several_iterations(const Plan& plan, const Program& step, int iterations) {
  if (iterations > kMostIterations)
    throw_input_error("--iterations: found {}, expected 1 to {}", iterations, kMostIterations);
  auto program = repeat(step, iterations, plan.schedule);
  if (!program.ok()) throw_input_error("plan for {}: {}", plan.model.name, program.error().message);
  return std::move(*program);
}

SteadyState take_steady_iteration(const Program& program, SimulationResult& result) {
  SteadyState steady = steady_state(program, result.trace);
  if (program.iterations > 1) result.iteration = steady.iteration();
  return steady;
}

std::string steady_text(const SteadyState& steady) {
  std::vector<std::string> ends;
  for (Picoseconds end : steady.ends) ends.push_back(to_string(end));
  return fmt::format(
      "{} for a step among {} that follow each other, in which the busiest device idles {:.1f}% of what it computes; "
      "they end at {}",
      to_string(steady.iteration()), steady.ends.size(), 100 * steady.bubble, join(ends));
}

nlohmann::ordered_json steady_json(const SteadyState& steady) {
  nlohmann::ordered_json ends = nlohmann::ordered_json::array();
  for (Picoseconds end : steady.ends) ends.push_back(end.seconds());
  return {{"iterations", steady.ends.size()}, {"iteration_ends_seconds", ends}, {"bubble", steady.bubble}};
}

}  // namespace unity::cli
