// The critical path of an iteration as simulate and explain report it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/machine/topology.h"
#include "core/plan/program.h"
#include "core/trace/critical_path.h"

namespace unity::cli {

struct PathReport {
  std::vector<CriticalStep> steps;
  std::vector<std::pair<std::string, Picoseconds>> groups;  // kinds of tasks, longest first, waiting included
  // Of all steps: in tasks that compute or copy on their device, in communications, in copies to and from the host, and
  // before tasks begin. They add up to the path.
  Picoseconds computing, communicating, copying, waiting;

  std::vector<CriticalStep> longest(std::size_t count) const;
};

PathReport report_path(const Program& program, const Trace& trace);

// [{task, name, device, seconds}]
nlohmann::ordered_json steps_json(const std::vector<CriticalStep>& steps, const Program& program,
                                  const Topology& topology);
// Kinds, and the ten longest tasks.
void print_path(const PathReport& report, const Program& program, const Topology& topology, Picoseconds iteration);

// "12.3%"; of nothing "-"
std::string percent(Picoseconds part, Picoseconds whole);

}  // namespace unity::cli
