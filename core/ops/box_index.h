// Boxes of one tensor, to be asked for those that meet a given one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/ops/shape.h"

namespace unity {

// Each box of a list once, numbered in the order of its first appearance. Where the boxes lie on a grid, as parts of an
// evenly or unevenly split tensor do, a question takes time in proportion to its answer; else to the number of boxes.
class BoxIndex {
 public:
  explicit BoxIndex(const std::vector<Box>& boxes);

  const std::vector<Box>& boxes() const { return boxes_; }
  const std::vector<int>& numbers() const { return numbers_; }  // by element of the list: which box it is

  // No two boxes meet, and that is known without a look at all pairs.
  bool on_grid() const { return !cells_.empty(); }

  // Numbers of the boxes that have an element in common with `box`, ascending.
  std::vector<int> meeting(const Box& box) const;

 private:
  bool lay_on_grid();

  std::vector<Box> boxes_;
  std::vector<int> numbers_;
  // By dimension: the ranges that boxes have there, ascending and disjoint.
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> ranges_;
  std::vector<int>
      cells_;  // of the grid of ranges, the last dimension innermost: a box, or -1; empty: there is no grid
};

// Elements that two boxes have in common.
std::int64_t common_elements(const Box& a, const Box& b);

struct BoxLess {
  bool operator()(const Box& a, const Box& b) const {
    return a.offset != b.offset ? a.offset < b.offset : a.extent < b.extent;
  }
};

struct BoxHash {
  std::size_t operator()(const Box& box) const;
};

}  // namespace unity
