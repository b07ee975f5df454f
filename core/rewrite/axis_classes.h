// Which axes of which operators belong together: sharding one class by d shards operators so that nothing moves between
// them. In a transformer, the batch is one class that spans everything; the heads are another (columns of the query
// product, heads of the reshape, batch of the attention products, rows of the output projection).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/rewrite/derive.h"

namespace unity {

struct AxisClassMember {
  NodeId node;
  int axis = -1;
  auto operator<=>(const AxisClassMember&) const = default;
};

// Axes are linked where a dimension of a result that walks one is an operand's dimension that walks the other, through
// parallelization operators; and where they walk the same dimension of one leaf. Links stop at axes of role whole, at
// axes of size 1, and at axes that are minor in a dimension of their operator (the size of a head in a reshape).
struct AxisClass {
  std::string name;                      // axis and label of the first member: "n of encoder.0.query"
  std::vector<AxisClassMember> members;  // what sharding splits: one axis for each node, in node order
  std::vector<AxisClassMember>
      others;  // further axes of the same nodes in the class (the keys in self-attention), whole
};

// In the order of their first members.
std::vector<AxisClass> axis_classes(const Pcg& pcg);

// The class of the axis that dimension `dim` of a value walks, in its producer or (of a leaf) in its users.
std::optional<std::size_t> class_of_dimension(const Pcg& pcg, const std::vector<AxisClass>& classes, ValueRef value,
                                              int dim);

// Splits every member by `degree`: spread where the node is computed several times and it applies, else shard. The
// result is in normal form. Parts are equal, but for windows, and where `uneven` allows the first ones an element more.
// Error, with the reason, when a member can not be split. Appends to the log what was applied.
Result<Pcg> shard_class(const Pcg& pcg, const AxisClass& axis_class, int degree,
                        std::vector<DerivationEvent>* log = nullptr, bool uneven = false);

}  // namespace unity
