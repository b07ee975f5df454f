// Binary trees on the ranks of a collective.
//
// Double binary tree (Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan,
// 2009): two trees on the same ranks of which each carries half of the data, so built that a rank with children in one
// is a leaf in the other. Hence no rank sends or receives more than twice the data in an all-reduce, and the bandwidth
// of all ranks is used. The first is the in-order binary tree of the positions 1 to n, in which odd positions are
// leaves; the second is the first mirrored (n even) or shifted by one (n odd), which takes odd positions to even ones.
#pragma once

#include <array>
#include <vector>

namespace unity {

// By rank; -1 for the root.
using Tree = std::vector<int>;

// Ranks 0 to n-1, n >= 1; depth floor(log2 n).
Tree binary_tree(int n);
std::array<Tree, 2> double_binary_tree(int n);
// Rank 0 is the root of both and sends each half once; the double binary tree is on the other ranks.
std::array<Tree, 2> rooted_double_tree(int n);

// NCCL's: n = nodes x per_node ranks, node by node. Between nodes double binary trees on one rank of each, its head;
// inside a node a chain from the head on. One pair of trees for each of `rotations` heads (one tree on a single node).
std::vector<Tree> trees_with_chains(int nodes, int per_node, int rotations);

// Edges from the root to the deepest rank.
int depth(const Tree& tree);
// Ranks in an order in which parents come before their children.
std::vector<int> top_down(const Tree& tree);

}  // namespace unity
