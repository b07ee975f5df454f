#include "simulator/simulate.h"

#include "simulator/folding/folded.h"
#include "simulator/link_use.h"
#include "simulator/prepared.h"
#include "simulator/simulation.h"
#include "simulator/simulation_bytes.h"

namespace unity {

SimulationResult simulate(const Program& program, const Topology& topology, const SimulationOptions& options) {
  return simulate(program, CollectiveCache(topology), options);
}

SimulationResult simulate(const Program& program, const CollectiveCache& cache, const SimulationOptions& options) {
  PreparedProgram prepared = prepare(program, cache, options);
  if (!options.fold || options.steps) return simulate(prepared, cache.topology(), options);
  return simulate_folded(prepared, cache.topology(), options);
}

SimulationResult simulate(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options) {
  Simulation simulation(prepared, topology, options);
  SimulationResult result = simulation.run();
  if (options.trace && options.links) add_links(simulation.links(), {}, topology, result.trace);
  return result;
}

Bytes simulation_bytes(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options) {
  Simulation simulation(prepared, topology, options);
  SimulationResult result = simulation.run();
  std::size_t bytes = simulation.bytes() + prepared.graph.bytes() + prepared.buffers.bytes() +
                      held_bytes(prepared.times, prepared.handovers, prepared.choices, prepared.capacities);
  bytes += held_bytes(result.peak_memory, result.memory_by_category, result.trace.spans, result.trace.memory);
  return {static_cast<std::int64_t>(bytes)};
}

SimulationResult simulate_folded(const PreparedProgram& prepared, const Topology& topology,
                                 const SimulationOptions& options) {
  FoldedProgram folded(prepared, topology);
  Simulation simulation(folded.prepared(), topology, options);
  SimulationResult result = folded.unfold(simulation.run());
  if (options.trace && options.links) add_links(simulation.links(), folded.symmetry().links.of, topology, result.trace);
  return result;
}

}  // namespace unity
