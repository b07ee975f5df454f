// A Program on a machine with some scales applied (core/machine/scale.h), ready to be simulated and analysed.
#pragma once

#include <vector>

#include "core/machine/scale.h"
#include "simulator/prepared.h"
#include "simulator/simulate.h"

namespace unity {

class Scenario {
 public:
  // The program must outlive it. InputError where a scale names what the machine or the program does not have.
  Scenario(const Program& program, Topology topology, const std::vector<Scale>& scales = {},
           const SimulationOptions& options = {.fold = true});
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  const Program& program() const { return *prepared_.program; }
  const Topology& topology() const { return topology_; }
  const PreparedProgram& prepared() const { return prepared_; }

  // With trace and use of links, or without both.
  SimulationResult simulate(bool trace) const;

 private:
  Topology topology_;
  SimulationOptions options_;
  CollectiveCache cache_;
  PreparedProgram prepared_;
};

// What scales of tasks call a task: its operator; of tasks without one "update", "copy", "accumulate", "zero"; none of
// communications, whose times follow from links.
std::string scale_name(const Program& program, const Task& task);

}  // namespace unity
