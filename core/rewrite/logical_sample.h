// Logical shapes and attributes at which a rule's source is well-typed, operator by operator, in a graph without
// parallelism: the first half of what an InstanceSampler looks for.
#pragma once

#include <optional>
#include <vector>

#include "core/base/random.h"
#include "core/rewrite/sampler_facts.h"

namespace unity {

constexpr int kSampleProposals = 24;  // of operands, or of a sharding, of one operator in one attempt

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : key_(RandomKey(seed)) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_below(key_, index_++, static_cast<std::uint64_t>(n)));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class List>
  const auto& of(const List& items) {
    return items[static_cast<std::size_t>(below(static_cast<std::int64_t>(items.size())))];
  }

 private:
  RandomKey key_;
  std::uint64_t index_ = 0;
};

class LogicalSample {
 public:
  // All but the options' attributes is drawn from `draw`. What is given has to stay.
  LogicalSample(const Rule& rule, const InstanceSampler::Facts& facts, const SampleOptions& options, Draw& draw);

  // Once, before all others.
  Result<void> choose();

  bool computes(std::size_t n) const { return rule_.nodes[n].op->category() == OpCategory::compute; }
  // Source nodes that need operands of one shape.
  std::vector<std::size_t> stacks() const;
  // Of a value variable.
  const ParallelShape& shape_of_variable(std::size_t v) const { return pcg_.shape(leaves_[v]); }
  // Of a value whose variables are all known.
  const ParallelShape& shape_of(PatternValue v) { return pcg_.shape(known(v).value()); }
  // Of a source node that computes.
  const AxisTable& table_of(std::size_t n) const { return *pcg_[nodes_[n]].table; }
  Result<Attributes> attributes_of(std::size_t n) { return choose_attributes(n, nullptr); }
  // By attribute variable; what no node has is 1.
  std::vector<AttributeValue> attributes() const;

 private:
  std::int64_t size();
  std::int64_t rank() { return 1 + draw_.below(options_.max_rank); }
  Dims random_dims(std::int64_t rank);
  Dims fit(std::size_t v, Dims dims, ConditionFacts::Known& known);
  void add_leaf(std::size_t v, const Shape& shape);
  std::optional<ValueRef> known(PatternValue v);
  void variables_of(PatternValue v, std::vector<std::size_t>& variables) const;
  void alike(std::size_t stack);
  Bindings bindings() const { return {pcg_, nodes_, leaves_, attributes_}; }
  std::optional<AttributeValue> given(int variable) const;
  AttributeValue random_attribute(const AttributeSpec& spec, const PatternNode& node,
                                  std::optional<AttributeValue> of_example);
  Result<Attributes> choose_attributes(std::size_t n, const Example* example);
  Result<Attributes> with_operands(std::size_t n, const std::vector<std::optional<Shape>>& of_variable,
                                   const Example* example);
  Result<void> choose_logical(std::size_t n);
  std::vector<Shape> from_example(const Example& example, std::optional<AxisTable> table,
                                  const std::vector<std::optional<Shape>>& operands);
  bool sized_by_operands(std::size_t n) const;
  std::vector<Shape> from_known(const std::vector<std::optional<Shape>>& operands);

  const Rule& rule_;
  const std::vector<InstanceSampler::Facts::OfNode>& of_nodes_;
  const ConditionFacts& facts_;
  ConditionFacts::Known known_;
  const SampleOptions& options_;
  Draw& draw_;
  std::int64_t equal_size_;  // 0: sizes differ
  bool alike_;               // variables that conditions liken have one shape
  Pcg pcg_;
  std::vector<ValueRef> leaves_;                           // by value variable
  std::vector<NodeId> nodes_;                              // by source node
  std::vector<std::optional<AttributeValue>> attributes_;  // by attribute variable
};

}  // namespace unity
