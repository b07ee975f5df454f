// A lower bound on the iteration of one graph under one mapping, without lowering it: what the busiest device computes,
// one task after another. Where that takes no less than a plan that is known, there is no need to look closer.
//
// For each task of an operator, what its device runs under every mapping of the graph:
//
//   forward   the operator, once
//   backward  the steps of its gradient, where no other task computes the same (it has no copies: of copies, a gradient
//             goes back to those that were read) and the gradient is sure to come: along operators with one result,
//             each of whose operands is read as a whole, back from the loss
//   update    of each stored part of a weight whose gradient is sure to come
//
// with the FLOPs and bytes that lowering gives these tasks; what sums, copies and communications add is left out. A
// task that adds to a sum (core/plan/accumulation.h) moves more bytes, which take no less time as long as a device's
// efficiency grows by no more than itself when bytes grow e-fold. No gradient of a looked-up row counts
// (core/plan/row_updates.h).
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/plan/lower.h"
#include "core/search/cost_model.h"

namespace unity {

class BusyBound {
 public:
  // Of training without micro-batches, each task as the cost model has it alone.
  BusyBound(const CostModel& cost, const OptimizerSpec& optimizer, const Schedule& schedule);

  // By node: what one task after another takes, on each kind of device. Nothing where that is not known: times are
  // measured, devices share what they compute on, the schedule or an element type makes tasks other ones.
  using Tasks = std::vector<std::vector<Picoseconds>>;  // by task of the grid, by kind
  struct Graph {
    std::vector<TaskGrid> grids;
    std::vector<std::shared_ptr<const Tasks>> tasks;
  };
  Graph of(const Pcg& pcg);

  Picoseconds busiest(const Graph& graph, const std::vector<MachineMapping>& mappings) const;

 private:
  std::shared_ptr<const Tasks> operator_tasks(const Pcg& pcg, NodeId id, const TaskGrid& grid, bool backward,
                                              const std::vector<bool>& needs);
  std::shared_ptr<const Tasks> updates(const Pcg& pcg, NodeId id, const TaskGrid& grid);
  void add_task(std::vector<Picoseconds>& times, double flops, double bytes) const;

  const CostModel& cost_;
  const Topology& topology_;
  int states_ = 0;                 // of the optimizer, by weight
  bool known_ = false;             // what tasks take
  std::vector<DeviceId> of_kind_;  // a device of each kind
  std::unordered_map<Hash, std::shared_ptr<const Tasks>> seen_;
};

}  // namespace unity
