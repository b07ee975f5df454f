// The cost of a plan, by simulation.
#pragma once

#include "core/search/cost_model.h"
#include "simulator/collectives/choice.h"

namespace unity {

class SimulatedCostModel : public CostModel {
 public:
  explicit SimulatedCostModel(Topology topology);
  SimulatedCostModel(const SimulatedCostModel&) = delete;
  SimulatedCostModel& operator=(const SimulatedCostModel&) = delete;

  Score score(const Program& program) const override;
  Picoseconds task_time(const Task& task, const ProgramOp* op, DeviceId device) const override;
  // Measured, where there is a profile; else of the cheapest algorithm on the idle machine, with the links that its
  // hops share. `group` as in CollectiveCache.
  Picoseconds collective_time(CollectiveKind kind, const std::vector<DeviceId>& group, Bytes bytes) const override;
  const Topology& topology() const override { return topology_; }

 private:
  Topology topology_;
  std::vector<DeviceSpec> rates_;  // by device: measured, where there is a profile
  CollectiveCache collectives_;
};

}  // namespace unity
