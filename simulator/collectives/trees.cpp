#include "simulator/collectives/trees.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace unity {
namespace {

// The in-order tree on ranks first .. last: its root stands where the largest power of two of them ends.
void grow(Tree& tree, int first, int last, int parent) {
  if (first > last) return;
  int root = first - 1 + static_cast<int>(std::bit_floor(static_cast<unsigned>(last - first + 1)));
  tree[static_cast<std::size_t>(root)] = parent;
  grow(tree, first, root - 1, root);
  grow(tree, root + 1, last, root);
}

// The tree in which rank `rename(r)` stands where r stood.
template <class Rename>
Tree renamed(const Tree& tree, std::size_t ranks, Rename rename) {
  Tree result(ranks, -1);
  for (std::size_t r = 0; r < tree.size(); ++r)
    result[static_cast<std::size_t>(rename(static_cast<int>(r)))] = tree[r] < 0 ? -1 : rename(tree[r]);
  return result;
}

int depth_of(const Tree& tree, int rank) {
  int depth = 0;
  while ((rank = tree[static_cast<std::size_t>(rank)]) >= 0) ++depth;
  return depth;
}

}  // namespace

Tree binary_tree(int n) {
  Tree tree(static_cast<std::size_t>(n));
  grow(tree, 0, n - 1, -1);
  return tree;
}

std::array<Tree, 2> double_binary_tree(int n) {
  Tree first = binary_tree(n);
  auto other = [n](int r) { return n % 2 == 0 ? n - 1 - r : (r + n - 1) % n; };
  return {first, renamed(first, first.size(), other)};
}

std::array<Tree, 2> rooted_double_tree(int n) {
  std::array<Tree, 2> trees = double_binary_tree(n - 1);
  for (Tree& tree : trees) {
    tree = renamed(tree, tree.size() + 1, [](int r) { return r + 1; });
    *std::find(tree.begin() + 1, tree.end(), -1) = 0;
  }
  return trees;
}

std::vector<Tree> trees_with_chains(int nodes, int per_node, int rotations) {
  std::vector<Tree> between = {binary_tree(nodes)};
  if (nodes > 1) {
    std::array<Tree, 2> both = double_binary_tree(nodes);
    between.assign(both.begin(), both.end());
  }
  std::vector<Tree> result;
  for (int head = 0; head < rotations; ++head)
    for (const Tree& heads : between) {
      auto rank = [&](int node, int place) { return node * per_node + (head + place) % per_node; };
      Tree& tree = result.emplace_back(static_cast<std::size_t>(nodes * per_node));
      for (int node = 0; node < nodes; ++node) {
        int above = heads[static_cast<std::size_t>(node)];
        tree[static_cast<std::size_t>(rank(node, 0))] = above < 0 ? -1 : rank(above, 0);
        for (int place = 1; place < per_node; ++place)
          tree[static_cast<std::size_t>(rank(node, place))] = rank(node, place - 1);
      }
    }
  return result;
}

int depth(const Tree& tree) {
  int deepest = 0;
  for (std::size_t r = 0; r < tree.size(); ++r) deepest = std::max(deepest, depth_of(tree, static_cast<int>(r)));
  return deepest;
}

std::vector<int> top_down(const Tree& tree) {
  std::vector<int> order(tree.size()), depths(tree.size());
  std::iota(order.begin(), order.end(), 0);
  for (int r : order) depths[static_cast<std::size_t>(r)] = depth_of(tree, r);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return depths[static_cast<std::size_t>(a)] < depths[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace unity
