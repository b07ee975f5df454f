// Running an operator, whole or task by task, on blocks in host memory: what the conformance tests and others compare.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/ops/operator.h"

namespace unity::testing {

// A block of a logical tensor with its data. Real data are held in the evaluation type (f64, f32, i64 or mod), indices
// in i32.
struct Block {
  DType dtype = DType::f64;
  Box box;
  Dims global;
  std::vector<std::uint64_t> words;

  Operand operand(bool shape_only = false);
  double real(std::int64_t i) const;  // f64 and f32 only
  void set_real(std::int64_t i, double value);
};
Block empty_block(DType dtype, Box box, Dims global);
Block empty_block(DType dtype, const Dims& global);  // the whole tensor
Block cut(const Block& whole, const Box& box);

// Reals are uniform in (-1, 1) (f64, f32) or integers in [-4, 4] (i64, mod); i32 are indices in [0, index_bound).
Block random_block(const Shape& shape, DType real_type, std::int64_t index_bound, RandomKey key);
std::vector<Block> random_operands(const Example& example, DType real_type, RandomKey key);

void add_into(Block& sum, const Block& summand, int sign = 1);  // the summand's box must lie in the sum's
// The same for parts of either kind, of equal boxes.
void fold_into(Block& whole, const Block& partial, Monoid monoid);
// The largest difference of elements; in the exact types 0 when all are equal, else 1. Boxes must be equal.
double difference(const Block& a, const Block& b);
Block converted(const Block& block, DType real_type);  // f64 <-> f32; indices stay

// What computes: the reference evaluator, or a kernel.
using Evaluator = std::function<void(const Operator&, const OpCall&)>;
Evaluator reference_evaluator();

// One call on whole tensors or blocks. Results have the boxes given. Throws std::runtime_error when the evaluator
// leaves an element unwritten or writes past the end.
std::vector<Block> call_operator(const Evaluator& evaluate, const Operator& op, const Attributes& attributes,
                                 const AxisTable& table, std::vector<Block>& inputs, const std::vector<Box>& boxes,
                                 DType real_type, RandomKey random = {});

// One way to distribute an operator: the sharding, and which operands hold partial sums.
struct Distribution {
  Sharding sharding;
  std::vector<bool> partial;
};
std::string to_string(const AxisTable& table, const Distribution& d);

// All distributions with axis degrees 1, 2, 3 (uneven ones of windows), passing partials 1, 2 and copies 1, 2 that the
// table allows, of at most `max_tasks` tasks.
std::vector<Distribution> distributions(const AxisTable& table, int max_tasks);

// Logical data behind a distribution: partial operands as summands that add up to the whole.
struct DistributedInputs {
  std::vector<Block> whole;
  std::vector<std::vector<Block>> summands;  // per operand: one, or `passing` of them
};
DistributedInputs distribute(const std::vector<Block>& whole, const Distribution& d, RandomKey key);

// The operands of one task, and the boxes of its results.
std::vector<Block> task_inputs(const AxisTable& table, const Distribution& d, const DistributedInputs& inputs,
                               const TaskGrid& grid, int task);
std::vector<Box> output_boxes(const AxisTable& table, const std::vector<Range>& ranges);

// Runs every task and puts the results together: adds up partial sums. Throws std::runtime_error when tasks leave a gap
// or overlap, or when copies differ.
std::vector<Block> run_sharded(const Evaluator& evaluate, const Operator& op, const Attributes& attributes,
                               const AxisTable& table, const Distribution& d, const DistributedInputs& inputs,
                               DType real_type, RandomKey random = {});

// The gradient program for all operands of real type.
GradientProgram full_gradient(const Operator& op, const Attributes& attributes, const std::vector<Shape>& inputs);

// Runs a gradient program on blocks: of the operands, the results and the gradients of the results. Returns the
// gradients of the operands (none where the program has none), each on its operand's box; throws std::runtime_error
// when it is not.
std::vector<std::optional<Block>> run_gradient(const Evaluator& evaluate, const GradientProgram& program,
                                               std::vector<Block> inputs, std::vector<Block> outputs,
                                               std::vector<Block> output_gradients, DType real_type);

// The gradient of a distributed operator: every task runs the program on its blocks. Gradients of copied operands are
// added up, those of partial operands must agree over the summands; the gradient of a result with copies comes in
// summands.
std::vector<std::optional<Block>> run_sharded_gradient(const Evaluator& evaluate, const Operator& op,
                                                       const Attributes& attributes, const AxisTable& table,
                                                       const Distribution& d, const DistributedInputs& inputs,
                                                       const GradientProgram& program,
                                                       const std::vector<Block>& output_gradients, DType real_type,
                                                       RandomKey key);

}  // namespace unity::testing
