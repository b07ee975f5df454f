#include "simulator/collectives/steps.h"

#include <algorithm>
#include <cmath>

namespace unity {
namespace {

struct Dependency {
  std::uint32_t before, after;
  bool data;
};

// Steps of a stage: beyond, they take more than some gigabytes, and their numbers no longer fit.
constexpr double kMostSteps = 1 << 26;

std::uint32_t chunks_of(const CollectivePhase& phase, double edge_bytes, Bytes chunk) {
  if (phase.pattern->hops < 2) return 1;
  double count = chunk.count > 0 ? std::ceil(edge_bytes / static_cast<double>(chunk.count))
                                 : std::clamp(32.0 * phase.pattern->hops, 64.0, 4096.0);
  return static_cast<std::uint32_t>(std::clamp(count, 1.0, kMostSteps));
}

}  // namespace

StepGraph make_steps(const CollectiveShape& shape, std::size_t stage, double bytes, Bytes chunk) {
  StepGraph graph;
  std::vector<Dependency> dependencies;
  for (std::uint32_t p = shape.stages[stage].first; p < shape.stages[stage].end; ++p) {
    const CollectivePhase& phase = shape.phases[p];
    const Pattern& pattern = *phase.pattern;
    if (pattern.lumped)
      throw_input_error("collectives: an all-to-all of so many devices is not simulated step by step; as flows it is");
    auto edges = static_cast<std::uint32_t>(pattern.edges.size());
    std::uint32_t ring = pattern.ring;
    std::uint32_t parts = ring ? phase.rounds : chunks_of(phase, phase.share * bytes, chunk);
    double part = phase.share * bytes / parts;
    auto first = static_cast<std::uint32_t>(graph.steps.size());
    if (double count = static_cast<double>(first) + static_cast<double>(parts) * edges; count > kMostSteps)
      throw_input_error("collectives: {:.0f} transfers step by step, expected at most {:.0f}: larger chunks, or flows",
                        count, kMostSteps);
    for (std::uint32_t s = 0; s < parts; ++s)
      for (std::uint32_t e = 0; e < edges; ++e) {
        const Edge& edge = pattern.edges[e];
        std::uint32_t id = first + s * edges + e;
        graph.steps.push_back({p, e, part * edge.weight, shape.hop_latency(edge)});
        if (s > 0) dependencies.push_back({id - edges, id, false});
        if (ring && s > 0) dependencies.push_back({id - edges - e + e / ring * ring + (e + ring - 1) % ring, id, true});
        for (std::uint32_t a : edge.after) dependencies.push_back({id - e + a, id, true});
      }
  }
  graph.waits.assign(graph.steps.size(), 0);
  graph.begin.assign(graph.steps.size() + 1, 0);
  for (const Dependency& d : dependencies) ++graph.begin[d.before + 1], ++graph.waits[d.after];
  for (std::size_t i = 1; i < graph.begin.size(); ++i) graph.begin[i] += graph.begin[i - 1];
  std::vector<std::uint32_t> next(graph.begin.begin(), graph.begin.end() - 1);
  graph.list.resize(dependencies.size());
  for (const Dependency& d : dependencies) graph.list[next[d.before]++] = {d.after & 0x7fffffffu, d.data};
  return graph;
}

}  // namespace unity
