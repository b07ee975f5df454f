#include <algorithm>
#include <numeric>

#include "gui/layout/layout.h"

namespace unity::gui {
namespace {

constexpr float kNodeGap = 28, kRankGap = 64, kBoxGap = 14;

std::vector<int> ranks_of(const LayoutGraph& graph) {
  std::size_t n = graph.nodes.size();
  std::vector<std::vector<int>> next(n);
  std::vector<int> waits(n, 0), rank(n, 0);
  for (const LayoutGraph::Edge& e : graph.edges)
    if (e.from != e.to) {
      next[static_cast<std::size_t>(e.from)].push_back(e.to);
      ++waits[static_cast<std::size_t>(e.to)];
    }
  std::vector<bool> done(n, false);
  std::vector<int> ready;
  for (std::size_t i = 0; i < n; ++i)
    if (waits[i] == 0) ready.push_back(static_cast<int>(i));
  std::size_t first_left = 0;
  for (std::size_t count = 0; count < n;) {
    if (ready.empty()) {  // a cycle: goes on at the first node that is left
      while (done[first_left]) ++first_left;
      ready.push_back(static_cast<int>(first_left));
    }
    int node = ready.back();
    ready.pop_back();
    auto at = static_cast<std::size_t>(node);
    if (done[at]) continue;
    done[at] = true;
    ++count;
    for (int target : next[at]) {
      auto t = static_cast<std::size_t>(target);
      if (done[t]) continue;
      rank[t] = std::max(rank[t], rank[at] + 1);
      if (--waits[t] == 0) ready.push_back(target);
    }
  }
  return rank;
}

}  // namespace

Layout lay_out_by_ranks(const LayoutGraph& graph) {
  std::size_t n = graph.nodes.size();
  std::vector<int> rank = ranks_of(graph);
  int ranks = n == 0 ? 0 : *std::max_element(rank.begin(), rank.end()) + 1;
  std::vector<std::vector<int>> rows(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < n; ++i) rows[static_cast<std::size_t>(rank[i])].push_back(static_cast<int>(i));
  std::vector<std::vector<int>> sources(n), targets(n);
  for (const LayoutGraph::Edge& e : graph.edges) {
    sources[static_cast<std::size_t>(e.to)].push_back(e.from);
    targets[static_cast<std::size_t>(e.from)].push_back(e.to);
  }
  std::vector<float> x(n, 0);
  auto place = [&](std::vector<int>& row) {
    float width = -kNodeGap;
    for (int i : row) width += graph.nodes[static_cast<std::size_t>(i)].w + kNodeGap;
    float at = -width / 2;
    for (int i : row) {
      float w = graph.nodes[static_cast<std::size_t>(i)].w;
      x[static_cast<std::size_t>(i)] = at + w / 2;
      at += w + kNodeGap;
    }
  };
  for (std::vector<int>& row : rows) place(row);
  std::vector<float> wish(n);
  auto sweep = [&](std::vector<int>& row, const std::vector<std::vector<int>>& neighbours) {
    for (int i : row) {
      const std::vector<int>& around = neighbours[static_cast<std::size_t>(i)];
      float sum = 0;
      for (int j : around) sum += x[static_cast<std::size_t>(j)];
      wish[static_cast<std::size_t>(i)] =
          around.empty() ? x[static_cast<std::size_t>(i)] : sum / static_cast<float>(around.size());
    }
    std::stable_sort(row.begin(), row.end(), [&](int a, int b) {
      return wish[static_cast<std::size_t>(a)] < wish[static_cast<std::size_t>(b)];
    });
    place(row);
  };
  for (int round = 0; round < 4; ++round) {
    for (std::size_t r = 1; r < rows.size(); ++r) sweep(rows[r], sources);
    for (std::size_t r = rows.size(); r-- > 1;) sweep(rows[r - 1], targets);
  }
  Layout layout;
  layout.nodes.resize(n);
  float y = 0;
  for (const std::vector<int>& row : rows) {
    float h = 0;
    for (int i : row) h = std::max(h, graph.nodes[static_cast<std::size_t>(i)].h);
    for (int i : row) layout.nodes[static_cast<std::size_t>(i)] = {x[static_cast<std::size_t>(i)], y + h / 2};
    y += h + kRankGap;
  }
  for (const LayoutGraph::Edge& e : graph.edges) {
    auto from = static_cast<std::size_t>(e.from), to = static_cast<std::size_t>(e.to);
    Point a = layout.nodes[from], b = layout.nodes[to];
    a.y += graph.nodes[from].h / 2;
    b.y -= graph.nodes[to].h / 2;
    layout.edges.push_back({a, b});
    layout.labels.push_back({(a.x + b.x) / 2, (a.y + b.y) / 2});
  }
  auto box_of = [&](std::size_t i) {
    const LayoutGraph::Node& node = graph.nodes[i];
    return Rect{layout.nodes[i].x - node.w / 2, layout.nodes[i].y - node.h / 2, node.w, node.h};
  };
  layout.clusters.assign(graph.clusters.size(), Rect());
  for (std::size_t i = 0; i < n; ++i)
    if (graph.nodes[i].cluster >= 0) {
      Rect& box = layout.clusters[static_cast<std::size_t>(graph.nodes[i].cluster)];
      box = unite(box, box_of(i).grown(kBoxGap));
    }
  for (std::size_t c = graph.clusters.size(); c-- > 0;) {
    Rect& box = layout.clusters[c];
    box.y -= graph.clusters[c].label_h;
    box.h += graph.clusters[c].label_h;
    int parent = graph.clusters[c].parent;
    if (parent >= 0) {
      Rect& outer = layout.clusters[static_cast<std::size_t>(parent)];
      outer = unite(outer, box.grown(kBoxGap));
    }
  }
  for (std::size_t i = 0; i < n; ++i) layout.bounds = unite(layout.bounds, box_of(i));
  for (const Rect& box : layout.clusters) layout.bounds = unite(layout.bounds, box);
  return layout;
}

}  // namespace unity::gui
