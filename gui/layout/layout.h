// Layered layouts of directed graphs with nested boxes: by Graphviz's dot in a process of its own, which is killed when
// it takes too long (dot may take minutes on graphs with long edges, and is not thread-safe), else by ranks and
// barycentres.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "gui/layout/geometry.h"

namespace unity::gui {

struct LayoutGraph {
  struct Node {
    float w = 0, h = 0;
    int cluster = -1;  // the innermost box it is in
  };
  struct Edge {
    int from = 0, to = 0;
    float label_w = 0, label_h = 0;  // 0: no label
  };
  struct Cluster {
    int parent = -1;  // before it in the list
    float label_w = 0, label_h = 0;
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<Cluster> clusters;
};

struct Layout {
  std::vector<Point> nodes;               // centres
  std::vector<std::vector<Point>> edges;  // from source to target, as straight pieces
  std::vector<Point> labels;              // centres, by edge
  std::vector<Rect> clusters;
  Rect bounds;
  std::string note;  // why dot did not make it; empty: it did
};

// The graph in DOT. What dot says comes back as text through read_layout().
std::string to_dot(const LayoutGraph& graph);
Layout read_layout(const std::string& text, const LayoutGraph& graph);

// `program` is called with --layout. Falls back to ranks after `seconds`.
Layout lay_out(const LayoutGraph& graph, const std::string& program, double seconds,
               const std::atomic<bool>* stop = nullptr);

// Longest-path ranks, ordered by barycentres in four sweeps; O(edges). Any graph, also with cycles.
Layout lay_out_by_ranks(const LayoutGraph& graph);

// The child: DOT on standard input, its layout on standard output. The exit code.
int layout_child();

}  // namespace unity::gui
