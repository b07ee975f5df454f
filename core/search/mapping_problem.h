// What level 3 chooses from: the operators of a parallelised graph as items with their tasks and the mappings that each
// may have, and what it costs that two items joined by an edge are mapped as they are. The dynamic programming
// (mapping_search.cpp) and the enumeration of all combinations (mapping_combinations.cpp) stand on it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/graph/pcg.h"
#include "core/machine/mapping.h"
#include "core/search/cost_model.h"
#include "core/search/mapping_search.h"

namespace unity {

// The tasks of one operator, and of all others that compute the same in the same layout.
struct OperatorTasks {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<ParallelShape> operands;
  TaskGrid grid;
  std::vector<std::vector<int>> coordinates;      // by task
  std::vector<std::vector<Box>> inputs, outputs;  // by operand, by task
  std::vector<int> passing;                       // by task
  std::vector<std::vector<int>> partials;         // by output, by task
  std::vector<MachineMapping> choices;            // the general ones first
  std::size_t general = 0;  // so many are for any share; the others for those that begin where they do
  std::vector<std::vector<DeviceId>> devices;  // by choice, by task
  std::vector<Resources> span;                 // by choice: from the first device to the last
  std::vector<std::int64_t> compute;           // by choice: forward and backward, on the device that takes longest
  Task first;                                  // forward and backward of the first task
  bool fixed = false;
  Hash layout = 0;  // of grid and operand boxes
  Shares shares = Shares::halves;

  std::size_t boxes() const;  // that it holds: most of its memory
  // Whether it is one of what an operator has to choose from on a share; what is fixed is where it has to be.
  bool may_choose(std::size_t choice, const Resources& share) const;
};

// What outlives one graph: costs of edges, and tasks, which most graphs of a search share.
struct MappingSearch::Cache {
  std::mutex mutex;
  std::unordered_map<Hash, std::int64_t> edges;
  std::unordered_map<Hash, std::vector<std::shared_ptr<const OperatorTasks>>> tasks;  // by operator and operands
  std::size_t boxes = 0;                                                              // of the tasks
};

class MappingProblem {
 public:
  using Tasks = OperatorTasks;

  struct Item {
    NodeId node;
    const Tasks* tasks;
  };

  struct Edge {
    int from = 0, output = 0, to = 0, input = 0, sum = 1;
    std::int64_t element_bytes = 4;
  };

  MappingProblem(const Pcg& pcg, const CostModel& cost, MappingSearch::Cache& cache, Shares shares = Shares::halves)
      : pcg_(pcg), cost_(cost), topology_(cost.topology()), cache_(cache), shares_(shares) {}

  // Error when an operator has more tasks than there are devices (names it).
  Result<void> build();

  const std::vector<Item>& items() const { return items_; }  // in topological order
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<int>& edges_of(int item) const { return edges_of_[static_cast<std::size_t>(item)]; }
  const Topology& topology() const { return topology_; }

  // Picoseconds of what moves over an edge, forth and back, alone on the machine. Problems may share their cache
  // between threads; each is of one thread.
  std::int64_t edge_cost(const Edge& e, int from_choice, int to_choice) const;

  // By node, with these choices by item; stored leaves go where their users are.
  std::vector<MachineMapping> mappings(const std::vector<int>& chosen) const;

 private:
  Result<void> build_items();
  Result<const Tasks*> tasks_of(NodeId id);
  void boundary_tasks(NodeId id, Tasks& tasks) const;
  void operator_tasks(NodeId id, Tasks& tasks) const;
  void choose_from(Tasks& tasks) const;
  void build_edges();
  // Who holds what of what an edge's consumer wants, wherever both are mapped. Boxes that are equal have one number.
  struct Overlaps {
    std::vector<int> wanted, held;                                  // by task of the consumer, of the producer: its box
    std::vector<std::vector<std::pair<int, std::int64_t>>> common;  // by box wanted: boxes held, ascending; elements
    std::vector<std::vector<int>> holders;                          // by box held: tasks of the producer
  };
  const Overlaps& overlaps(const Edge& e) const;
  std::int64_t movement_time(const Edge& e, int from_choice, int to_choice) const;
  void find_neighbourhoods();
  void place_leaves(const std::vector<int>& chosen, std::vector<MachineMapping>& result) const;

  const Pcg& pcg_;
  const CostModel& cost_;
  const Topology& topology_;
  MappingSearch::Cache& cache_;
  Shares shares_;
  std::unordered_map<Hash, std::vector<std::shared_ptr<const Tasks>>> tasks_;  // of the items, as in the cache
  std::vector<Item> items_;
  std::vector<int> item_of_;                                      // by node
  std::vector<std::vector<std::pair<int, int>>> neighbourhoods_;  // by level of nearness, by device: first and end
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;                                                 // by item
  mutable std::map<std::tuple<const Tasks*, int, const Tasks*, int>, Overlaps> overlaps_;  // once asked for
};

}  // namespace unity
