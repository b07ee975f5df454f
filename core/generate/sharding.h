// Pairs of one operator each, with at most one parallelization operator for each dimension of its operands and results:
// how every operator's computation may be split. They need more operators than families have (one partition or
// replicate for each operand), and follow from the axis table, so they are written down instead of enumerated:
//
//   shard_<op>_<axis>    op(x, u) => combine(op(partition(x), replicate(u))); results that do not walk the axis: reduce
//   spread_<op>_<axis>   op(replicate(x), u) => replicate(combine(op(partition(x), u)))
//   replicate_<op>       replicate(op(x)) => op(replicate(x))
//   reduce_<op>          op(reduce(x), u) => reduce(op(x, replicate(u))); linear in x; jointly linear: in all
//
// and, but for gradients, each the other way round: unshard, unspread, ..
#pragma once

#include <string>
#include <vector>

#include "core/generate/pattern.h"

namespace unity {

struct NamedPattern {
  std::string name;
  PairPattern pattern;  // at degree 2, well-typed
};

// As a rule of degree 2 at the ranks at hand.
std::string literal_text(const NamedPattern& pattern);

// Of every example of every operator at which degree 2 is well-typed. Several may have one name (an axis lies elsewhere
// at another rank, or when an operand is transposed): the first ones of all names come first.
std::vector<NamedPattern> sharding_patterns();

// Of one operator, example by example.
std::vector<NamedPattern> sharding_patterns(const Operator& op);

// Whether one application of the rule makes the pattern's target of its source.
bool gives(const Rule& rule, const NamedPattern& pattern);

}  // namespace unity
