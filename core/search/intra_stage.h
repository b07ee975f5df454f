// What a stage of a pipeline can do inside (Alpa's intra-operator pass). Candidates are shardings of the whole model by
// data parallelism and by columns, then rows; every operator of a stage follows one of them, and where two operators
// next to each other follow different ones, data are laid out anew. What that takes, intra_costs.h says.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "core/rewrite/relayout.h"
#include "core/search/strategy.h"
#include "core/search/substitution.h"

namespace unity {

// The batch over `data` devices, then matmuls by columns and rows over `tensor`. What is neither has `tensor` times as
// many devices as it needs: it is computed by some of them, or by all of them (Megatron-LM; Shoeybi et al., 2019), or
// split further along the batch, or along another dimension where it has one (sequence parallelism; Korthikanti et al.,
// 2022).
struct IntraPlan {
  enum class Rest : std::uint8_t { few, copies, batch, sequence };
  int data = 1, tensor = 1;
  Rest rest = Rest::few;
  // Not 0: each operator in a way of its own, of this kind (exact_sharding.h); `data` is the width.
  int chosen = 0;
  int width() const { return data * tensor; }
  auto operator<=>(const IntraPlan&) const = default;
};
std::string to_string(const IntraPlan& plan);  // "data 2 x tensor 3 (rest by batch)"

// A model in normal form, without parallelism, and how its operators can be split. Operators are numbered in the order
// of the graph, leaves and parallelization operators apart.
class IntraPlans {
 public:
  IntraPlans(const Pcg& model, const StrategyInput& input);

  const Pcg& model() const { return model_; }
  const std::vector<NodeId>& operators() const { return operators_; }
  // Those that apply on so many devices.
  const std::vector<IntraPlan>& of_width(int width);
  // Finds them for all of these widths, which takes most of the time that this class takes; of these, all but sharded()
  // may be asked by several threads at once then. A search that is stopped finds no more.
  void prepare(const std::vector<int>& widths);
  // The model split so; null where that does not apply, or is not allowed. Operators are in the same order.
  const Pcg* sharded(const IntraPlan& plan);
  // A further one: operators that read their operands so, where these can be laid out so. Not thread-safe.
  void add(const IntraPlan& plan, std::vector<OperandShapes> operands);
  // Of a plan that `of_width` or `sharded` gave before: the model split so, its operators, and the shapes of an
  // operator's operands there. Thread-safe.
  const Pcg& model(const IntraPlan& plan) const { return models_.at(plan).pcg.value(); }
  const std::vector<NodeId>& operators(const IntraPlan& plan) const { return models_.at(plan).operators; }
  OperandShapes operands(const IntraPlan& plan, std::size_t op) const;
  // The micro-batches must divide what each device has of the batch.
  bool has_micro_batches(const IntraPlan& plan, int micro_batches) const;

  double flops_of(std::size_t begin, std::size_t end) const;  // of the forward pass of operators begin .. end - 1
  bool has_blocks() const { return std::find(in_block_.begin(), in_block_.end(), true) != in_block_.end(); }
  // Of an operator: whether it is in a repeated block, and whether what it makes is read outside of that.
  bool in_block(std::size_t op) const { return in_block_[op]; }
  bool leaves_block(std::size_t op) const { return leaves_block_[op]; }
  // Whether the gradient of a node of the model is needed.
  bool needs_gradient(NodeId node) const { return needs_gradient_[node.index()]; }
  // The axis of an operator that walks the batch.
  std::optional<int> batch_axis(std::size_t op) const { return batch_axis_[op]; }

  // Whether operators read what was computed of all samples (batch norms): no micro-batch goes back before the last one
  // has come.
  bool waits_for_batch() const { return waits_for_batch_; }

  // Bytes of the whole batch that operators before `cut` make and those from it on read.
  const std::vector<double>& crossing() const { return crossing_; }
  // Operators that an operator waits for.
  const std::vector<std::size_t>& producers(std::size_t op) const { return producers_[op]; }

 private:
  struct Sharded {
    std::optional<Pcg> pcg;
    std::vector<NodeId> operators;
  };
  // By data, tensor, whether the rest has copies.
  using Columns = std::tuple<int, int, bool>;
  static Columns columns_of(const IntraPlan& plan) {
    return {plan.data, plan.tensor, plan.rest == IntraPlan::Rest::copies};
  }
  // That the options allow.
  bool is_allowed(const IntraPlan& plan) const;
  std::vector<IntraPlan> possible(int width) const;
  Result<State> split_columns(const Columns& columns) const;  // without a split of the batch they are known, if needed
  void split_columns(const std::vector<Columns>& all);
  Result<Pcg> shard(const IntraPlan& plan) const;
  Sharded with_operators(Pcg pcg) const;
  void shard_all(std::vector<IntraPlan> plans);

  const StrategyInput& in_;
  Pcg model_;
  std::int64_t batch_ = 1;
  std::vector<NodeId> operators_;
  std::vector<std::optional<int>> batch_axis_;  // by operator
  bool waits_for_batch_ = false;
  std::vector<bool> needs_gradient_;  // by node
  std::vector<double> crossing_;      // by operator
  std::vector<std::vector<std::size_t>> producers_;
  std::vector<bool> in_block_, leaves_block_;  // by operator
  std::map<Columns, Result<State>> columns_then_rows_;
  std::map<IntraPlan, Sharded> models_;
  std::map<int, std::vector<IntraPlan>> of_width_;
  std::map<IntraPlan, int> batch_degrees_;  // of those that were added
};

}  // namespace unity
