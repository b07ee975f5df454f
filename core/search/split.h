// Level 1 of the search: cutting a graph into parts that are optimised apart (paper, section 5.3). A cut is a value
// through which everything after it depends on everything before it (a post-dominator of the compute operators before
// it; weights and inputs may be used on both sides; what needs nothing of it, like another tower of a model, may be
// little). For each layout of the value at a cut, the parts on its two sides
// are independent. Of graphs that have too few of these, parts are cut where everything depends through two values,
// which have one layout then (cells of a network that read the results of the two cells before them).
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "core/graph/pcg.h"
#include "core/rewrite/rule.h"

namespace unity {

// The layout of a value at a cut: a degree for each dimension, and copies. (The paper allows copies = 1 only; with
// copies, Megatron's replicated residual stream is in the space.)
struct Layout {
  Integers degrees;
  int copies = 1;
  bool operator==(const Layout&) const = default;
  std::strong_ordering operator<=>(const Layout&) const = default;
  int tasks() const;
};
// Whether two layouts, possibly of tensors of different rank, use the devices alike: the same degree of dimension 0,
// the same copies, as many devices.
bool alike(const Layout& a, const Layout& b);
std::string to_string(const Layout& layout);  // "[2, 1, 1] copies 6"

// The layouts that are tried for a tensor on n devices: serial; and for every d0 that divides n and dimension 0,
// dimension 0 split d0 ways with the other n / d0 devices holding copies, or splitting another dimension: of images and
// sequences not the last, which would do no better than the one before it; of matrices the columns, since what one
// matmul makes in columns the next one reads as rows of a sum.
std::vector<Layout> boundary_layouts(const Shape& shape, int devices);
struct Part {
  std::size_t first = 0, last = 0;  // nodes of the whole graph, half-open, leaves apart
  std::vector<NodeId> in;           // whose values are cut before it, ascending: none for the first part
  std::vector<NodeId> out;          // at its end: none for the last part
  bool has_branches = false;        // that need nothing of one another, from inputs of their own
};

// Those that all values at the end of a part can have; behind branches, which may have a half of the machine each, also
// on one half.
std::vector<Layout> boundary_layouts(const Pcg& pcg, const Part& part, int devices);

// Cuts into parts of at least `minimum` compute operators, at the same places of repeated blocks; through two values in
// parts of more than kLargePart operators. Of the places that make a part of less than twice the minimum it is the
// first of those where the fewest matches of these rules lie on both sides. One part when there are no cuts, or the
// graph is smaller than two parts.
constexpr std::size_t kLargePart = 200;
std::vector<Part> split(const Pcg& pcg, int minimum, const std::vector<Rule>& rules);

// The part as a graph of its own: for each value a boundary leaf in layout `in`, a deliver operator in layout `out`
// (also for what only passes by: it may change its layout); leaves have as many copies as the boundary, so that every
// operator is computed by as many devices redundantly. Error when the layouts do not fit (copies cannot be dropped).
Result<Pcg> part_graph(const Pcg& pcg, const Part& part, const Layout& in, const Layout& out);

// The inverse: joins the graphs of all parts, rewritten or not, into one. Outputs in the order of `pcg`.
Result<Pcg> stitch(const Pcg& pcg, const std::vector<Part>& parts, const std::vector<Pcg>& graphs);

}  // namespace unity
