// What the PCG panel shows: the operators and collapsed blocks that are to be seen, laid out, with their edges.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gui/layout/layout.h"
#include "gui/panels/pcg/blocks.h"
#include "gui/session/prediction.h"
#include "gui/widgets/painter.h"

namespace unity::gui {

struct PcgOptions {
  std::set<std::string> open;  // keys of blocks that are expanded
  bool weights = false;        // else weights belong to what reads them
  bool layouts = true;         // show parallelization operators; else they belong to what they lay out
  bool operator==(const PcgOptions&) const = default;
};

struct PcgItem {
  int block = 0;
  std::string title, detail, weights;  // lines; empty ones are not shown
  std::vector<NodeId> nodes;           // ascending, with weights that belong to it
  Rect box;
};

struct PcgEdge {
  int from = 0, to = 0;          // items
  std::vector<ValueRef> values;  // that go along it
  std::string label;             // shape with degrees, copies and partials; "3 tensors"
  std::vector<Point> path;
  Point label_at;
};

struct PcgBox {  // an expanded block
  int block = 0;
  std::string title;
  Rect box;
};

struct PcgView {
  std::vector<PcgItem> items;
  std::vector<PcgEdge> edges;
  std::vector<PcgBox> boxes;
  Rect bounds;
  std::vector<int> item_of_node;  // -1: hidden
  std::string note;               // of the layout
};

// The visible graph without places; then with them.
PcgView select_items(const Pcg& pcg, const BlockTree& tree, const PcgOptions& options, const TextMetrics& metrics);
void place_items(PcgView& view, const BlockTree& tree, const TextMetrics& metrics, const std::string& program,
                 const std::atomic<bool>* stop = nullptr);

// "[768/96, 512, 1024] copies 2": a shape as edges show it; without the element type where that is f32.
std::string edge_text(const ParallelShape& shape);

// The keys of all blocks around a node, and what has to be expanded to see it.
std::set<std::string> around(const BlockTree& tree, NodeId node);

enum class PcgColoring : std::uint8_t { kind, time, communication, memory, device };
std::vector<std::string> colorings();

// By item: what colours it, between 0 and 1 (or a category), and in words.
struct ItemColors {
  std::vector<double> amount;
  std::vector<int> category;      // >= 0: a category stands in place of an amount
  std::vector<std::string> text;  // "3.2 ms, 4.1% of the compute time"
  std::string low, high;          // ends of the ramp, in words; empty: categories
  std::vector<std::pair<int, std::string>> legend;
};
ItemColors color_items(const Pcg& pcg, const PcgView& view, PcgColoring coloring, const PlanPrediction* prediction,
                       const Plan* plan);

// How items are drawn beyond their colours.
struct PcgFlags {
  std::vector<bool> selected, faded, marked;  // by item
  std::vector<bool> added, changed;           // by item, in a comparison with another graph
  int hovered = -1;
  ValueRef value;  // selected
};
PcgFlags flag_items(const PcgView& view, const std::vector<NodeId>& selected, const std::vector<NodeId>& marked,
                    const std::vector<NodeId>* only);

struct PcgLook {
  const Theme& theme;
  const TextMetrics& metrics;
  const ItemColors* colors = nullptr;
  PcgFlags flags;
};
void paint_pcg(Painter& painter, const PcgView& view, const BlockTree& tree, const Pcg& pcg, const PcgLook& look);

// What lies at a point: an item, else an edge (by its label or near its line), else a box's title; -1.
struct PcgHit {
  int item = -1, edge = -1, box = -1;
};
PcgHit hit(const PcgView& view, Point at, float reach);

}  // namespace unity::gui
