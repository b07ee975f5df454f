// What an operator is. One operator = one header + one source + one line in operators.def (+ one kernel per backend).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "core/ops/attributes.h"
#include "core/ops/axes.h"
#include "core/ops/parallel_shape.h"

namespace unity {

// Calls: the one kernel signature, shared by the reference evaluator and every backend.

// A dense row-major block of a logical tensor. `offset` and `global` place it: embedding rows, causal masks, random
// numbers and means (which divide by the *global* extent) need them.
struct Operand {
  void* data = nullptr;  // null for operands of which only the shape is used
  DType dtype = DType::f32;
  Dims extent;  // of this block
  Dims offset;  // of its first element in the logical tensor
  Dims global;  // sizes of the logical tensor
  std::int64_t elements() const { return element_count(extent); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct OpCall {
  const Attributes& attributes;
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  RandomKey random;  // (seed, origin id, step), for operators that draw random numbers
};

class Operator;

// A value inside a gradient: an operand or result of the forward operator, the gradient of a result, or the result of a
// step.
struct GradientValue {
  enum class Kind : std::uint8_t { input, output, output_gradient, step } kind = Kind::input;
  int index = 0;   // operand, result or step number
  int result = 0;  // which result of the step
  bool operator==(const GradientValue&) const = default;
};

struct GradientStep {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<GradientValue> inputs;
};

// The gradient of an operator as a graph of other operators. It is a vector-Jacobian product of the *local* function,
// so a task of a sharded operator runs it on its own shards; movement between shards has its own adjoint (see
// plan/lowering).
struct GradientProgram {
  std::vector<GradientStep> steps;
  std::vector<std::optional<GradientValue>>
      input_gradients;  // none: not differentiable in, or not wanted for, that operand
};

// Records a GradientProgram. Shapes are those of the logical (unsharded) tensors.
class GradientBuilder {
 public:
  GradientBuilder(std::vector<Shape> inputs, std::vector<Shape> outputs, std::vector<bool> wanted);

  GradientValue input(int i) const { return {GradientValue::Kind::input, i, 0}; }
  GradientValue output(int i = 0) const { return {GradientValue::Kind::output, i, 0}; }
  GradientValue output_gradient(int i = 0) const { return {GradientValue::Kind::output_gradient, i, 0}; }
  bool wanted(int input) const { return wanted_[static_cast<std::size_t>(input)]; }
  const Shape& shape(GradientValue value) const;

  // Appends a step; the name is one of operators.def. CHECKs that it is well-formed.
  GradientValue apply(std::string_view op, Attributes attributes, std::vector<GradientValue> inputs);
  // The r-th result of the step that made `value`.
  GradientValue result(GradientValue value, int r) const { return {value.kind, value.index, r}; }
  void set_input_gradient(int input, GradientValue value);
  // Sums `value` over the dimensions along which `input` was broadcast, back to the shape of `input`.
  GradientValue sum_to_input(GradientValue value, int input);

  GradientProgram take() && { return std::move(program_); }

 private:
  std::vector<Shape> inputs_, outputs_;
  std::vector<bool> wanted_;
  std::vector<std::vector<Shape>> step_shapes_;
  GradientProgram program_;
};

// A small instance, from which tests, the rule generator and the derived-rule listing start.
struct Example {
  Attributes attributes;
  std::vector<Shape> inputs;
  std::int64_t index_bound = 0;  // i32 operands hold indices in [0, index_bound)
  double low = -1, high = 1;     // real operands hold values between them
};

enum class OpCategory : std::uint8_t {
  leaf,             // no inputs: input, weight, dropout mask
  compute,          // runs as tasks
  parallelization,  // changes how a tensor is laid out, never what it is
};

struct Arity {
  int min = 1;
  int max = 1;  // -1: any number
};

class Operator {
 public:
  explicit Operator(std::string name) : name_(std::move(name)) {}
  virtual ~Operator() = default;
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  const std::string& name() const { return name_; }
  virtual OpCategory category() const { return OpCategory::compute; }
  virtual std::vector<AttributeSpec> attributes() const { return {}; }
  virtual Arity arity() const { return {1, 1}; }

  // The axis table for logical input shapes. Errors say operator, operand, found, expected.
  virtual Result<AxisTable> axes(const Attributes& attributes, std::span<const Shape> inputs) const = 0;

  // Parallel shapes of the results. From the table, except for leaves and parallelization operators.
  virtual Result<std::vector<ParallelShape>> parallel_shapes(const Attributes& attributes,
                                                             const std::vector<ParallelShape>& inputs) const;

  // Records the gradient; the default records none (not differentiable).
  virtual void gradient(const Attributes& attributes, GradientBuilder& builder) const;

  // Core's own evaluator: the oracle for generator, axioms, refutation and every kernel. Element types: f64, i64 and
  // mod (exact arithmetic; nonlinear functions have stand-ins there), i32 for indices. Not meant to be fast.
  virtual void reference(const OpCall& call) const = 0;

  virtual std::vector<Example> examples() const { return {}; }

  // Equations that the axis table does not say, in the language of rules: `axiom NAME lhs = rhs where ..`, of logical
  // tensors (core/rewrite/axioms.h). Each is checked exactly on small tensors, and proofs start from them
  // (core/verify).
  virtual std::string_view axioms() const { return {}; }

  // The operand `operand` holds whole numbers from 0 to below this: indices, labels; none: any numbers.
  virtual std::optional<std::int64_t> index_bound(const Attributes& /*attributes*/, std::span<const Shape> /*inputs*/,
                                                  std::size_t /*operand*/) const {
    return std::nullopt;
  }

  // The elements of operand `operand` that a call reads, of blocks of these shapes; none: all of them. Lookups and
  // slices read what they select: it bounds the memory traffic that costs count.
  virtual std::optional<std::int64_t> elements_read(std::span<const Shape> /*inputs*/, const Shape& /*output*/,
                                                    std::size_t /*operand*/) const {
    return std::nullopt;
  }

  // Of the gradient of a table of rows: row ids[i] of the result is the sum of all rows of dy that belong to it, times
  // this; zero elsewhere. Operands: ids, of which equally many belong to each row of dy, dy, and the table.
  virtual std::optional<double> row_factor(const Attributes& /*attributes*/, const Dims& /*ids*/) const {
    return std::nullopt;
  }

  // The operator that adds this one's result to what its last operand holds, and may write it in that operand's place,
  // at the cost of reading it; empty: none. Programs add up gradients so (core/plan/accumulation.h).
  virtual std::string_view accumulating(const Attributes& /*attributes*/) const { return {}; }
  // Of that operator, the one whose result it adds (accumulating.h); null: it is none.
  virtual const Operator* accumulates() const { return nullptr; }

  // op(x, y) = op(y, x): a pattern matches both orders of the operands.
  virtual bool commutative() const { return false; }

  // Its layout is given, not chosen: rules leave it alone (the ends of a piece of a graph).
  virtual bool pinned() const { return false; }

  // For random operators (dropout mask): the values depend on OpCall::random.
  virtual bool random() const { return false; }

  // Leaves: held on devices as their storage prefix says (weights, states), and whether a gradient flows to it.
  virtual bool stored() const { return false; }
  virtual bool trainable() const { return false; }

  // No gradient flows through it, though it has real results (a routing decision, the shift of an exponential).
  virtual bool detached(const Attributes& /*attributes*/) const { return false; }

  // Result `output` is the next value of the state that operand i holds: written back after each iteration of training.
  virtual std::optional<int> new_state(int /*output*/) const { return std::nullopt; }

  // In inference, a random operator computes what it gives in the mean: with these attributes (a dropout mask of ones).
  virtual Attributes inference_attributes(const Attributes& attributes) const { return attributes; }

  // In inference, result `output` is operand i itself (batch norm's running moments).
  virtual std::optional<int> inference_alias(int /*output*/) const { return std::nullopt; }

 private:
  std::string name_;
};

// All operators, in the order of operators.def.
std::span<const Operator* const> all_operators();
// nullptr when there is none of that name.
const Operator* find_operator(std::string_view name);
// CHECKs that it exists: for names in our own code.
const Operator& get_operator(std::string_view name);
std::vector<std::string> operator_names();

// Logical shapes of the results. Error when the operands do not fit.
Result<std::vector<Shape>> infer_shapes(const Operator& op, const Attributes& attributes,
                                        std::span<const Shape> inputs);
Result<std::vector<ParallelShape>> infer_parallel_shapes(const Operator& op, const Attributes& attributes,
                                                         const std::vector<ParallelShape>& inputs);

}  // namespace unity
