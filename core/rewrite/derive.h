// Rules that follow from operators' axis tables, so that no operator's sharding is listed by hand. They are applied to
// concrete nodes of any rank and attributes; with d the degree, x an operand that walks the axis, u one that does not:
//
//   shard_<op>_<axis>    op(x, u) => combine(op(partition(x), replicate(u)))      results that do not walk the axis:
//   reduce spread_<op>_<axis>   op(replicate(x), u) => replicate(combine(op(partition(x), u)))   instead of computing d
//   times the same replicate_<op>       replicate(op(x)) => op(replicate(x))                     for all uses of a
//   result at once reduce_<op>          op(reduce(x), u) => reduce(op(x, replicate(u)))          op linear in x; all
//   operands if jointly linear
//
// Results are in normal form (normalize.h). Each keeps the parallel shape of everything else; only a graph output may
// get copies, by replicate_<op>. Leaves are never touched: what follows them says how they are stored.
#pragma once

#include <string>
#include <vector>

#include "core/rewrite/relayout.h"
#include "core/rewrite/rule.h"

namespace unity {

// One application: the rule, the label of the node, the degree.
struct DerivationEvent {
  std::string rule;
  std::string where;
  int degree = 0;
  bool operator==(const DerivationEvent&) const = default;
};

// Errors (not applicable) name the rule, the node, what was found and what was expected.
Result<Pcg> apply_shard(const Pcg& pcg, NodeId node, int axis, int degree);
// Needs copies of the computation, `degree` times at least, and operands that walk the axis and are replicated for it.
Result<Pcg> apply_spread(const Pcg& pcg, NodeId node, int axis, int degree);
// Needs that every use of the node's results replicates them; a graph output gets copies.
Result<Pcg> apply_replicate(const Pcg& pcg, NodeId node, int degree);
// Needs that operand `operand` is a sum that is reduced just before; for jointly linear operators, that all are.
Result<Pcg> apply_reduce(const Pcg& pcg, NodeId node, int operand, int degree);

// replicate_<op> on every node where it is possible once it is done on all after it: in a serial graph, everything.
// Error when that is nowhere.
Result<Pcg> apply_replicate_everywhere(const Pcg& pcg, int degree, std::vector<DerivationEvent>* log = nullptr);

// "shard_matmul_n"
std::string shard_rule_name(const Node& node, int axis);
std::string spread_rule_name(const Node& node, int axis);

// How shard and spread lay out the operands of a node. Error when the axis must not be split, or for spread when the
// computation has too few copies. Parts are equal, but for windows and where `uneven` allows it: then the first parts
// may have one element more.
Result<OperandShapes> shard_operands(const Pcg& pcg, NodeId node, int axis, int degree, bool uneven = false);
Result<OperandShapes> spread_operands(const Pcg& pcg, NodeId node, int axis, int degree, bool uneven = false);

// The derived rules of all operators as text rules, on the operators' examples: for listing, and to be tested like
// others. One rule for each name, those that are well-typed for some degree.
std::vector<Rule> derived_rules();

}  // namespace unity
