// What the simulator says of a document's plan.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/device_blocks.h"
#include "gui/session/document.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"

namespace unity::gui {

// Of one operator in one iteration, forward and backward; times of the device that is busiest with it.
struct NodeCost {
  Picoseconds compute, communication;
  Bytes memory;  // of its results, weights and gradients on the fullest device; not all live at the same time
  std::int64_t tasks = 0;
};

struct PlanPrediction {
  Picoseconds iteration;
  std::vector<Bytes> peak_memory;  // by device
  Bytes communicated;
  double samples_per_second = 0;
  double seconds = 0;  // that it took to predict
  std::string error;   // why there is none: a plan that cannot be lowered
  // The iteration is that of the plan before the last edit and what the edit changed about (estimate.h): all else, and
  // the exact time, follow.
  bool estimated = false;

  // Of a whole prediction alone; else empty.
  bool whole = false;
  std::shared_ptr<const Program> program;
  SimulationResult result;      // with trace and links
  std::vector<NodeCost> nodes;  // by node of the graph

  std::string iteration_text() const;  // "526.6 ms", "about 526.6 ms"
  Bytes peak() const;
  // "needs 18 GB on node0.socket0.gpu0, which has 16 GB", or empty.
  std::string does_not_fit(const Topology& topology) const;
};
using PredictionPtr = std::shared_ptr<const PlanPrediction>;

// Thread-safe. Keeps what it found out about machines and the last programs lowered: what-if factors need no other.
class Predictor {
 public:
  // From the prediction of the document before an edit; none where what it changes does not stand by itself.
  std::optional<PlanPrediction> estimate(const Document& before, const PlanPrediction& known, const Document& after);
  // The iteration alone: devices that do the same are lowered once (core/plan/device_blocks.h).
  PlanPrediction quick(const Document& document);
  // With trace, use of links and what each operator takes.
  PlanPrediction whole(const Document& document);

 private:
  struct Machine {
    explicit Machine(Topology scaled) : cost(std::move(scaled)), blocks(cost.topology()) {}
    SimulatedCostModel cost;
    DeviceBlocks blocks;
  };
  std::shared_ptr<const Machine> machine(const Document& document);
  // A program of the devices that stand for all, with which these are.
  struct Piece {
    LoweredBlocks blocks;
    std::shared_ptr<const Program> program;  // null: there is none
    std::string error;
  };
  Piece piece(const Document& document, const Machine& machine);
  std::shared_ptr<const Program> program(const Document& document);

  std::mutex mutex_;
  std::vector<std::pair<std::pair<std::shared_ptr<const Topology>, std::string>, std::shared_ptr<const Machine>>>
      machines_;  // the newest last
  std::shared_ptr<const Plan> lowered_plan_;
  std::shared_ptr<const Program> lowered_;
  std::shared_ptr<const Plan> piece_plan_;
  Piece piece_;
};

// Whether devices that compute alike (DeviceBlocks) do alike what the schedule adds, too, as the search has it
// (core/search/evaluator.h).
bool devices_do_alike(const Schedule& schedule);

// By task: the operator that it is counted at, from which it stems; invalid where the graph has none.
std::vector<NodeId> nodes_of_tasks(const Pcg& pcg, const Program& program);

// By node of the plan's graph, from a trace of its program. Backward and update tasks count for the operator they stem
// from.
std::vector<NodeCost> node_costs(const Pcg& pcg, const Program& program, const Trace& trace);

}  // namespace unity::gui
