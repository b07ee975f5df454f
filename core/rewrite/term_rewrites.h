// Where a rule's source occurs among terms, and what its target is there. Unlike matches in graphs (match.h), different
// pattern nodes may stand for one node, and values inside may have other uses.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <vector>

#include "core/rewrite/directed_rule.h"
#include "core/rewrite/shared_terms.h"

namespace unity {

// What a rule makes of a place: the images of its source's outputs.
struct Rewrite {
  const DirectedRule* rule = nullptr;
  std::map<ValueRef, ValueRef> replaced;
  std::vector<std::optional<AttributeValue>> attributes;
};

// Values that attributes may take which must be chosen.
struct Candidates {
  Integers degrees, dimensions, numbers;
  std::strong_ordering operator<=>(const Candidates&) const = default;
};

// With the first output of the rule's source at `root`; further outputs lie at nodes of `others`. Outputs keep their
// parallel shapes.
std::vector<Rewrite> rewrites_at(SharedTerms& terms, const DirectedRule& rule, NodeId root,
                                 const std::vector<NodeId>& others, const Candidates& candidates);

// Of a rule `x => ..` at a value.
std::vector<Rewrite> introductions_at(SharedTerms& terms, const DirectedRule& rule, ValueRef value,
                                      const Candidates& candidates);

}  // namespace unity
