// The reference evaluator of whole graphs, on logical tensors: the oracle for differentiation, rewriting, lowering and
// every executor. Parallelization operators are the identity here (stack_partials adds), so a graph and every correct
// parallelization of it have equal values.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/graph/pcg.h"

namespace unity {

// A dense row-major tensor. Element types: f64, i64, mod, and i32 for indices.
class LogicalTensor {
 public:
  LogicalTensor() = default;
  explicit LogicalTensor(Shape shape);  // zeros

  const Shape& shape() const { return shape_; }
  std::int64_t elements() const { return shape_.elements(); }
  // T is the C++ type of shape().dtype: double, std::int64_t, Mod or std::int32_t.
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }
  // A block that is the whole tensor.
  Operand operand() const;
  // Element i as a real number (mod: its representative in [0, p)).
  double number(std::int64_t i) const;
  bool operator==(const LogicalTensor&) const = default;

 private:
  Shape shape_;
  std::vector<std::byte> bytes_;
};

struct EvaluateOptions {
  DType real = DType::f64;  // what the graph's f32 tensors are computed in: f64, i64 or mod
  std::uint64_t seed = 0;   // random leaves draw from RandomKey(seed).with(origin).with(step)
  std::uint64_t step = 0;
};

using LeafValues = std::map<std::string, LogicalTensor>;  // by leaf name

// values[node][output] for every node. InputError when a leaf that has no value of its own is missing or of another
// shape.
std::vector<std::vector<LogicalTensor>> evaluate(const Pcg& pcg, const LeafValues& leaves,
                                                 const EvaluateOptions& options = {});

// Values of pcg.outputs(), in their order.
std::vector<LogicalTensor> evaluate_outputs(const Pcg& pcg, const LeafValues& leaves,
                                            const EvaluateOptions& options = {});

// A value for every input and weight, from options.seed and the leaf's origin: weights their initial values (in exact
// types: random integers), inputs standard normal, i32 inputs indices that every user accepts (see index_bound).
LeafValues random_leaves(const Pcg& pcg, const EvaluateOptions& options = {});

// The values 0, 1, .. that all users of an input accept: the size of the smallest axis that they index into (the rows
// of an embedding table, the classes of a loss), 2 for binary targets. kNoIndexBound where any number will do.
inline constexpr std::int64_t kNoIndexBound = std::int64_t{1} << 31;
std::int64_t index_bound(const Pcg& pcg, NodeId leaf);

}  // namespace unity
