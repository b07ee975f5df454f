// The state of one lowering (lower.h); `lower.cpp` lowers the forward pass and joins all, `lower_backward.cpp` the
// backward pass and the update.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/plan/lower.h"
#include "core/plan/movement.h"

namespace unity {

// Where a value of the PCG is found: a placement, of whose summands every `sum` are to be added up before use.
// Partition, combine, replicate, pipeline and batch change nothing here: layouts follow from who requires what.
struct View {
  PlacementIndex placement = -1;
  int sum = 1;
  bool anywhere = false;  // inputs and dropout masks: any device can have any part without communication
};

struct TaskPieces {
  DeviceId device;
  int micro = 0;
  std::vector<PieceIndex> inputs, outputs;
};

class Lowering {
 public:
  Lowering(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const Topology& topology,
           const LowerOptions& options)
      : pcg_(pcg),
        mappings_(mappings),
        topology_(topology),
        options_(options),
        emitter_(program_),
        movements_(emitter_, topology, options.blocks) {}

  Result<Program> run();

 private:
  struct TapeEntry {
    NodeId node;               // valid: the tasks of a compute node, or the storage of a weight
    std::size_t movement = 0;  // else a movement
  };

  int micro_batches(const Sharding& sharding) const {
    int all = micro_count(sharding);
    return options_.micro_batches > 0 ? std::min(all, options_.micro_batches) : all;
  }
  // What the tasks of a node do as one, by device; and which of these are lowered.
  struct Blocks {
    std::vector<TaskBlock> all;
    std::vector<std::size_t> here;
  };
  const Blocks& blocks_of(NodeId id, const TaskGrid& grid);
  void find_needs();
  Result<void> check_mappings() const;
  Result<void> check_size() const;
  Result<void> check_names() const;
  Result<void> check_outputs() const;
  void lower_leaf(NodeId id);
  void lower_parallelization(NodeId id);
  View stack_partials(NodeId id);
  void lower_compute(NodeId id);
  void note_use(const View& view);
  // What all devices require, where only some of them are lowered and that does not say enough.
  using AllRequirements = std::function<std::vector<Requirement>()>;
  std::vector<PieceIndex> provide(const View& view, const std::vector<Requirement>& requirements,
                                  const AllRequirements& all = nullptr);
  PieceIndex piece_anywhere(NodeId leaf, const Requirement& r);
  void add_up_micro_batches(NodeId id, std::size_t output, const Sharding& sharding);
  void record_movements();
  void backward();
  void seed_loss();
  void backward_compute(NodeId id);
  void synchronise_weight(NodeId id);
  void emit_updates();
  void find_used();
  std::optional<ValueRef> alias(NodeId id, std::size_t output) const;
  void write_back_states();
  std::unordered_map<BufferId, TaskList> readers_of(const std::vector<bool>& buffers) const;  // those that are marked
  void collect_outputs();
  std::int32_t program_op(const Operator& op, const Attributes& attributes, const AxisTable& table, OriginId origin,
                          const std::string& name);

  const Pcg& pcg_;
  const std::vector<MachineMapping>& mappings_;
  const Topology& topology_;
  const LowerOptions& options_;
  Program program_;
  Emitter emitter_;
  Movements movements_;
  std::map<std::pair<MachineMapping, Integers>, Blocks> blocks_;  // of nodes that are mapped alike
  std::vector<bool> needs_;                                       // by node: does a gradient flow through it?
  std::vector<bool> used_;                                        // by node: does inference need it? (in training: all)
  std::vector<std::vector<View>> views_;                          // by node and output
  std::vector<std::vector<TaskPieces>> tasks_;                    // by compute node
  std::vector<TapeEntry> tape_;
  std::size_t recorded_ = 0;
  std::map<PlacementIndex, NodeId> anywhere_;  // placements of inputs and masks
  std::map<PlacementIndex, NodeId> untaped_;   // stored leaves not used yet
  std::map<std::pair<PlacementIndex, Integers>, PieceIndex> anywhere_pieces_;
  struct PendingUpdate {
    BufferId weight;
    Movements::Gradient gradient;
    std::string name;
    Dims dims;
  };
  std::vector<PendingUpdate> updates_;
};

}  // namespace unity
