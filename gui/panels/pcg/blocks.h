// What of a graph can be collapsed: a tree whose leaves are operators.
//
// Groups follow the components of labels ("encoder.3.attention"). At every level, in topological order, runs of
// children that repeat with some period, alike by structure (operators, attributes, parallel shapes and inner edges, by
// hash; no names), become one block: '24 × encoder'. So models whose operators have no telling labels are collapsed,
// too.
#pragma once

#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/graph/pcg.h"

namespace unity::gui {

struct Block {
  enum class Kind : std::uint8_t { op, group, repeat };
  Kind kind = Kind::op;
  std::string key;    // names it as long as the graph has it: "encoder.3.attention", "encoder.*"; of operators "#17"
  std::string label;  // "attention", "encoder", "matmul"
  int parent = -1;
  std::vector<int> children;  // of a repeat: its instances
  std::vector<NodeId> nodes;  // all operators within, ascending
  Hash structure = 0;         // equal for blocks that do the same
};

struct BlockTree {
  std::vector<Block> blocks;  // the first is the whole graph
  std::vector<int> of_node;   // by node: its leaf

  const Block& operator[](int i) const { return blocks[static_cast<std::size_t>(i)]; }
  // A repeat has as many children; else 1.
  int find(const std::string& key) const;  // -1: none
};

BlockTree find_blocks(const Pcg& pcg);

}  // namespace unity::gui
