// Graphs with all sharing there can be: equal operators on equal operands are one node, and the operands of commutative
// operators are in a fixed order. So two graphs are equal when their outputs are, and shapes are inferred once for each
// term. What searches among many small graphs stand on (derivation.h).
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/graph/pcg.h"

namespace unity {

class SharedTerms {
 public:
  // The node with this operator and these operands. Error when it is ill-typed.
  Result<NodeId> add(const Operator& op, const Attributes& attributes, std::vector<ValueRef> inputs);

  // The outputs of the graph as terms. Its leaves are told apart by their names: error when one has none.
  Result<std::vector<ValueRef>> import(const Pcg& pcg);

  // The same for one side of an instance of a rule. What lays out the variables is opaque: a variable is a value of
  // which nothing is known but its shape.
  Result<std::vector<ValueRef>> import(const Pcg& side, const std::vector<ParallelShape>& variables);

  // All nodes so far, as one graph without outputs.
  const Pcg& pcg() const { return pcg_; }
  const ParallelShape& shape(ValueRef v) const { return pcg_.shape(v); }
  bool opaque(NodeId id) const { return opaque_[id.index()]; }
  std::size_t size() const { return pcg_.size(); }

  // The nodes that the values need, operands first; opaque ones are left out.
  std::vector<NodeId> reach(const std::vector<ValueRef>& values) const;

  // The values with some replaced everywhere. Error when something becomes ill-typed.
  Result<std::vector<ValueRef>> replace(const std::vector<ValueRef>& values,
                                        const std::map<ValueRef, ValueRef>& replacements);

  // A graph of its own with these outputs.
  Pcg graph(const std::vector<ValueRef>& outputs) const;

 private:
  Result<NodeId> copy(const Node& node, std::vector<ValueRef> inputs, const std::string& variable);

  Pcg pcg_;
  std::vector<bool> opaque_;
  // By hash; an invalid id: ill-typed. Only looked up, never walked.
  struct Entry {
    const Operator* op;
    Attributes attributes;
    std::vector<ValueRef> inputs;
    NodeId id;
  };
  std::unordered_map<Hash, std::vector<Entry>> nodes_;
  std::map<std::tuple<std::string, const Operator*, Attributes, std::vector<ValueRef>>, NodeId> opaque_nodes_;
};

}  // namespace unity
