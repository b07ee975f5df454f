#include <cstdio>
#include <iterator>

#include <fmt/format.h>
#include <gvc.h>

#include "gui/layout/layout.h"

namespace unity::gui {
namespace {

constexpr float kPointsPerInch = 72;
constexpr std::size_t kManyEdges = 400;  // beyond, edges are straight: splines take most of the time
constexpr int kPieces = 6;               // of a Bézier curve

std::string spacer(float w, float h) {
  return fmt::format(
      R"(<<table border="0" cellborder="0" cellspacing="0" cellpadding="0" fixedsize="true" width="{:.0f}" height="{:.0f}"><tr><td></td></tr></table>>)",
      w, h);
}

void add_cluster(std::string& dot, const LayoutGraph& graph, int cluster, const std::vector<std::vector<int>>& inside,
                 const std::vector<std::vector<int>>& members) {
  auto at = static_cast<std::size_t>(cluster);
  const LayoutGraph::Cluster& c = graph.clusters[at];
  dot += fmt::format("subgraph cluster{} {{ margin=10; label={}; labelloc=t;\n", cluster, spacer(c.label_w, c.label_h));
  for (int node : members[at]) dot += fmt::format("n{};", node);
  for (int child : inside[at]) add_cluster(dot, graph, child, inside, members);
  dot += "}\n";
}

Point at(pointf p, float top) { return {static_cast<float>(p.x), top - static_cast<float>(p.y)}; }

void print_cluster(Agraph_t* graph, float top) {
  for (Agraph_t* g = agfstsubg(graph); g; g = agnxtsubg(g)) {
    int number = 0;
    if (std::sscanf(agnameof(g), "cluster%d", &number) == 1) {
      boxf box = GD_bb(g);
      fmt::print("c {} {:.1f} {:.1f} {:.1f} {:.1f}\n", number, box.LL.x, top - box.UR.y, box.UR.x - box.LL.x,
                 box.UR.y - box.LL.y);
    }
    print_cluster(g, top);
  }
}

void print_edge(Agedge_t* edge, float top) {
  const char* number = agget(edge, const_cast<char*>("comment"));
  fmt::print("e {}", number);
  if (const textlabel_t* label = ED_label(edge)) {
    Point p = at(label->pos, top);
    fmt::print(" {:.1f} {:.1f}", p.x, p.y);
  } else {
    fmt::print(" 0 0");
  }
  const splines* curves = ED_spl(edge);
  for (int s = 0; curves && s < curves->size; ++s) {
    const bezier& curve = curves->list[s];
    for (int i = 0; i + 3 < curve.size; i += 3) {
      Point p[4];
      for (int k = 0; k < 4; ++k) p[k] = at(curve.list[i + k], top);
      // Straight pieces of Béziers stay single ones.
      float bend = std::abs((p[1].x - p[0].x) * (p[3].y - p[0].y) - (p[1].y - p[0].y) * (p[3].x - p[0].x)) +
                   std::abs((p[2].x - p[0].x) * (p[3].y - p[0].y) - (p[2].y - p[0].y) * (p[3].x - p[0].x));
      int pieces = bend < 4 ? 1 : kPieces;
      for (int k = i == 0 ? 0 : 1; k <= pieces; ++k) {
        float t = static_cast<float>(k) / static_cast<float>(pieces), u = 1 - t;
        fmt::print(" {:.1f} {:.1f}",
                   u * u * u * p[0].x + 3 * u * u * t * p[1].x + 3 * u * t * t * p[2].x + t * t * t * p[3].x,
                   u * u * u * p[0].y + 3 * u * u * t * p[1].y + 3 * u * t * t * p[2].y + t * t * t * p[3].y);
      }
    }
    if (curve.eflag) {
      Point p = at(curve.ep, top);
      fmt::print(" {:.1f} {:.1f}", p.x, p.y);
    }
  }
  fmt::print("\n");
}

}  // namespace

std::string to_dot(const LayoutGraph& graph) {
  bool many = graph.edges.size() > kManyEdges;
  std::string dot = fmt::format(
      "digraph g {{ rankdir=TB; nodesep=0.25; ranksep={}; splines={}; nslimit=0.7; nslimit1=0.7; mclimit=0.6;\n"
      "node [shape=box, fixedsize=true, label=\"\"]; edge [arrowsize=0.5, comment=\"\"];\n",
      0.28, many ? "line" : "spline");
  std::vector<std::vector<int>> inside(graph.clusters.size()), members(graph.clusters.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const LayoutGraph::Node& node = graph.nodes[i];
    dot += fmt::format("n{} [width={:.3f}, height={:.3f}];\n", i, node.w / kPointsPerInch, node.h / kPointsPerInch);
    if (node.cluster >= 0) members[static_cast<std::size_t>(node.cluster)].push_back(static_cast<int>(i));
  }
  for (std::size_t c = 0; c < graph.clusters.size(); ++c)
    if (graph.clusters[c].parent >= 0)
      inside[static_cast<std::size_t>(graph.clusters[c].parent)].push_back(static_cast<int>(c));
  for (std::size_t c = 0; c < graph.clusters.size(); ++c)
    if (graph.clusters[c].parent < 0) add_cluster(dot, graph, static_cast<int>(c), inside, members);
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const LayoutGraph::Edge& edge = graph.edges[e];
    std::string label =
        edge.label_w > 0 && !many ? fmt::format(", label={}", spacer(edge.label_w, edge.label_h)) : std::string();
    dot += fmt::format("n{} -> n{} [comment=\"{}\"{}];\n", edge.from, edge.to, e, label);
  }
  return dot + "}\n";
}

int layout_child() {
  std::string text;
  char buffer[65536];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) text.append(buffer, n);
  GVC_t* context = gvContext();
  Agraph_t* graph = agmemread(text.c_str());
  if (!graph || gvLayout(context, graph, "dot") != 0) return 1;
  boxf box = GD_bb(graph);
  auto top = static_cast<float>(box.UR.y);
  fmt::print("g {:.1f} {:.1f}\n", box.UR.x, box.UR.y);
  for (Agnode_t* node = agfstnode(graph); node; node = agnxtnode(graph, node)) {
    Point p = at(ND_coord(node), top);
    fmt::print("n {} {:.1f} {:.1f}\n", agnameof(node) + 1, p.x, p.y);
    for (Agedge_t* edge = agfstout(graph, node); edge; edge = agnxtout(graph, edge)) print_edge(edge, top);
  }
  print_cluster(graph, top);
  fmt::print("end\n");
  return std::fflush(stdout) == 0 ? 0 : 1;  // the process ends: nothing is freed
}

}  // namespace unity::gui
