// A chain: operators that run as one task, each on what the one before wrote (core/plan/fuse_chains.h makes them). The
// first is element-wise or a product of matrices, the others are element-wise; all their results are the same box.
//
// A task of a chain has as operands what comes from outside, each once, then the results that are kept: those that
// anyone but the next step reads, among them the last step's. The others exist only while the task runs.
#pragma once

#include "core/base/ids.h"
#include "core/ops/operator.h"

namespace unity {

// As operators.def lists them.
bool is_elementwise(const Operator& op);
bool leads_chains(const Operator& op);

struct ChainStep {
  static constexpr int kBefore = -1;  // what the step before wrote
  static constexpr int kNotKept = -1;

  const Operator* op = nullptr;
  Attributes attributes;
  OriginId origin;
  std::string name;
  std::vector<int> operands;  // by operand: kBefore, or an operand of the task: an input, or what an earlier step kept
  int kept = kNotKept;        // or the operand of the task that its result is
  std::int32_t tensor = -1;   // of the program: what its result is a block of
  DType dtype = DType::f32;   // of that tensor
};

// As an operator of its own, though of no graph: it has no axes, and its attributes are those of its steps.
class Chain final : public Operator {
 public:
  // So that what a kernel is told about a chain stays small.
  static constexpr std::size_t kMostSteps = 16, kMostOperands = 12;  // operands: of the task

  // `inputs`: how many of a task's operands come from outside.
  Chain(std::vector<ChainStep> steps, std::size_t inputs);

  const std::vector<ChainStep>& steps() const { return steps_; }
  std::size_t inputs() const { return inputs_; }
  bool led_by_product() const { return leads_chains(*steps_.front().op); }
  // matmul{"none", 0}(0, 1) + add(., 2) -> 3 + gelu(.) -> 4: the steps with the task's operands, a point for kBefore.
  const std::string& text() const { return text_; }

  Arity arity() const override;
  Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const override;
  // One step after the other, each on the whole block.
  void reference(const OpCall& call) const override;
  std::optional<std::int64_t> index_bound(const Attributes& attributes, std::span<const Shape> inputs,
                                          std::size_t operand) const override;

 private:
  std::vector<ChainStep> steps_;
  std::size_t inputs_;
  std::string text_;
};

}  // namespace unity
