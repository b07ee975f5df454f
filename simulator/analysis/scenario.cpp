#include "simulator/analysis/scenario.h"

#include <set>

#include "core/base/longest_time.h"
#include "core/base/text.h"

namespace unity {
namespace {

Topology scaled(Topology topology, const std::vector<Scale>& scales) {
  if (!scales.empty()) apply_scales(scales, topology);
  return topology;
}

void scale_times(const Scale& scale, PreparedProgram& prepared) {
  const Program& program = *prepared.program;
  bool found = false;
  std::set<std::string> known;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    std::string name = scale_name(program, program.tasks[t]);
    if (name.empty()) continue;
    known.insert(name);
    if (name != scale.name) continue;
    found = true;
    Picoseconds& alone = prepared.times[t].alone;
    alone = scaled(alone, scale.factor);
    if (prepared.flows[t] == PreparedProgram::kNoFlow) continue;
    // What crosses links takes so many times as long with so many times the bytes.
    auto& choice = prepared.choices[prepared.flows[t]];
    auto larger = std::make_shared<CollectiveChoice>();
    larger->shape = choice->shape;
    larger->bytes = choice->bytes * scale.factor;
    larger->alternatives = choice->alternatives;
    choice = std::move(larger);
  }
  if (!found)
    throw_input_error("--scale {}: found '{}', which no task of the plan is{}", scale.text(), scale.name,
                      suggestion(scale.name, {known.begin(), known.end()}));
}

}  // namespace

std::string scale_name(const Program& program, const Task& task) {
  if (task.kind == TaskKind::communicate) return "";
  if (task.kind == TaskKind::compute) return program.ops[static_cast<std::size_t>(task.op)].op->name();
  return std::string(to_string(task.kind));
}

Scenario::Scenario(const Program& program, Topology topology, const std::vector<Scale>& scales,
                   const SimulationOptions& options)
    : topology_(scaled(std::move(topology), scales)),
      options_(options),
      cache_(topology_),
      prepared_(prepare(program, cache_, options)) {
  for (const Scale& scale : scales)
    if (scale.kind == Scale::Kind::task) scale_times(scale, prepared_);
  check_times(prepared_);
}

SimulationResult Scenario::simulate(bool trace) const {
  SimulationOptions options = options_;
  options.trace = options.links = trace;
  return options.fold && !options.steps ? simulate_folded(prepared_, topology_, options)
                                        : unity::simulate(prepared_, topology_, options);
}

}  // namespace unity
