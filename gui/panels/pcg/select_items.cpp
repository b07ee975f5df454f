#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "gui/panels/pcg/view.h"

namespace unity::gui {
namespace {

constexpr float kTitle = 14, kDetail = 11, kLine = 15, kPadding = 9, kLeast = 78, kMarker = 14;

bool is_weight(const Node& node) { return node.is_leaf() && node.op->stored(); }

// By node: the node that stands for it when weights are not shown: their reader.
std::vector<NodeId> owners(const Pcg& pcg, const PcgOptions& options) {
  std::vector<NodeId> owner(pcg.size());
  auto uses = pcg.uses();
  std::vector<bool> of_weight(pcg.size(), false);
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    of_weight[i] = is_weight(node) || (node.is_parallelization() && of_weight[node.inputs[0].node.index()]);
    owner[i] = NodeId(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = pcg.size(); i-- > 0;) {
    const Node& node = pcg.nodes()[i];
    bool hidden = (!options.weights && of_weight[i]) || (!options.layouts && node.is_parallelization());
    if (!hidden) continue;
    if (node.is_parallelization() && !of_weight[i]) continue;  // belongs to what it lays out, below
    if (!uses[i].empty()) owner[i] = owner[uses[i][0].user.index()];
  }
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (!options.layouts && pcg.nodes()[i].is_parallelization() && (!of_weight[i] || options.weights))
      owner[i] = owner[pcg.nodes()[i].inputs[0].node.index()];
  return owner;
}

// "encoder.3.ffn.in.matmul" in the box "encoder.3" is "ffn.in"; the operator's own name is the title already.
std::string short_label(const Node& node, const std::string& box) {
  std::string label = node.name;
  if (!box.empty() && label.starts_with(box + ".")) label = label.substr(box.size() + 1);
  std::size_t dot = label.rfind('.');
  std::string last = dot == std::string::npos ? label : label.substr(dot + 1);
  if (last == node.op->name()) label = dot == std::string::npos ? std::string() : label.substr(0, dot);
  return label;
}

std::string op_title(const Node& node) {
  std::string title = node.op->name();
  if (!node.is_parallelization()) return title;
  std::vector<std::string> values;
  for (const AttributeValue& value : node.attributes) values.push_back(to_string(value));
  // "partition 0 into 96", "replicate 2"
  return values.size() == 2 ? fmt::format("{} {} into {}", title, values[0], values[1])
                            : fmt::format("{} {}", title, join(values, " "));
}

std::string weights_text(const Pcg& pcg, const PcgItem& item) {
  std::vector<std::string> texts;
  for (NodeId id : item.nodes)
    if (is_weight(pcg[id])) texts.push_back(edge_text(storage_shape(pcg, id)));
  if (texts.empty()) return {};
  if (texts.size() > 2) return fmt::format("{} weights", texts.size());
  return "W " + join(texts, " ");
}

struct Titles {
  std::string title, detail;
};

Titles block_titles(const Pcg& pcg, const BlockTree& tree, const Block& block) {
  std::size_t operators = 0;
  std::int64_t parameters = 0;
  for (NodeId id : block.nodes) {
    operators += pcg[id].is_compute() ? 1 : 0;
    if (is_weight(pcg[id])) parameters += pcg[id].outputs[0].shape().elements();
  }
  // Inputs and what lays them out compute nothing.
  std::size_t count = operators == 0 ? block.nodes.size() : operators;
  std::string detail = fmt::format("{} {}{}", count, operators == 0 ? "node" : "operator", count == 1 ? "" : "s");
  if (parameters > 0) detail += fmt::format(", {} parameters", count_to_string(static_cast<double>(parameters)));
  if (block.kind != Block::Kind::repeat) {
    const std::string& inside = block.parent >= 0 ? tree[block.parent].label : block.label;
    bool number = !block.label.empty() && block.label.find_first_not_of("0123456789") == std::string::npos;
    return {number ? fmt::format("{} {}", inside, block.label) : block.label, detail};
  }
  return {fmt::format("{} x {}", block.children.size(), block.label), detail};
}

}  // namespace

std::string edge_text(const ParallelShape& shape) {
  std::string text = to_string(shape);
  return text.starts_with("f32") ? text.substr(3) : text;
}

std::set<std::string> around(const BlockTree& tree, NodeId node) {
  std::set<std::string> keys;
  for (int b = tree[tree.of_node[node.index()]].parent; b > 0; b = tree[b].parent) keys.insert(tree[b].key);
  return keys;
}

PcgView select_items(const Pcg& pcg, const BlockTree& tree, const PcgOptions& options, const TextMetrics& metrics) {
  PcgView view;
  std::vector<NodeId> owner = owners(pcg, options);
  // By block: its item, where it is the outermost one that is not expanded.
  std::map<int, int> item_of_block;
  std::map<int, int> box_of_block;
  view.item_of_node.assign(pcg.size(), -1);
  auto visible_block = [&](NodeId id) {
    int visible = tree.of_node[id.index()];
    for (int b = tree[visible].parent; b > 0; b = tree[b].parent)
      if (!options.open.contains(tree[b].key)) visible = b;
    return visible;
  };
  auto add_boxes = [&](int block) {
    std::vector<int> outside;
    for (int b = tree[block].parent; b > 0; b = tree[b].parent) outside.push_back(b);
    for (auto b = outside.rbegin(); b != outside.rend(); ++b)
      if (!box_of_block.contains(*b)) {
        box_of_block[*b] = static_cast<int>(view.boxes.size());
        view.boxes.push_back({*b, block_titles(pcg, tree, tree[*b]).title, {}});
      }
  };
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    int block = visible_block(owner[i]);
    auto [at, fresh] = item_of_block.emplace(block, static_cast<int>(view.items.size()));
    if (fresh) {
      add_boxes(block);
      view.items.push_back({.block = block});
    }
    view.items[static_cast<std::size_t>(at->second)].nodes.push_back(id);
    view.item_of_node[i] = at->second;
  }
  for (PcgItem& item : view.items) {
    const Block& block = tree[item.block];
    if (block.kind == Block::Kind::op) {
      const Node& node = pcg[block.nodes[0]];
      std::string box;
      for (int b = block.parent; b > 0 && box.empty(); b = tree[b].parent)
        if (tree[b].kind == Block::Kind::group && tree[b].key.find_first_of("+*#") == std::string::npos)
          box = tree[b].key;
      item.title = op_title(node);
      item.detail = short_label(node, box);
      item.weights = weights_text(pcg, item);
    } else {
      Titles titles = block_titles(pcg, tree, block);
      item.title = titles.title;
      item.detail = titles.detail;
    }
    float width = std::max({kLeast, metrics.width(item.title, kTitle, Face::strong) + 2 * kPadding,
                            metrics.width(item.detail, kDetail) + 2 * kPadding,
                            metrics.width(item.weights, kDetail, Face::mono) + 2 * kPadding});
    int lines = 1 + (item.detail.empty() ? 0 : 1) + (item.weights.empty() ? 0 : 1);
    if (block.kind != Block::Kind::op) width += 2 * kMarker;
    item.box = {0, 0, width + 4, static_cast<float>(lines) * kLine + 12};
  }
  std::map<std::pair<int, int>, std::size_t> edge_of;
  for (std::size_t i = 0; i < pcg.size(); ++i)
    for (ValueRef v : pcg.nodes()[i].inputs) {
      int from = view.item_of_node[v.node.index()], to = view.item_of_node[i];
      if (from == to) continue;
      auto [at, fresh] = edge_of.emplace(std::pair(from, to), view.edges.size());
      if (fresh) view.edges.push_back({.from = from, .to = to});
      std::vector<ValueRef>& values = view.edges[at->second].values;
      if (std::find(values.begin(), values.end(), v) == values.end()) values.push_back(v);
    }
  for (PcgEdge& edge : view.edges) {
    std::set<std::string> texts;
    for (ValueRef v : edge.values) texts.insert(edge_text(pcg.shape(v)));
    if (edge.values.size() == 1)
      edge.label = *texts.begin();
    else if (texts.size() == 1)
      edge.label = fmt::format("{} x {}", edge.values.size(), *texts.begin());
    else
      edge.label = fmt::format("{} tensors", edge.values.size());
  }
  return view;
}

void place_items(PcgView& view, const BlockTree& tree, const TextMetrics& metrics, const std::string& program,
                 const std::atomic<bool>* stop) {
  constexpr double kPatience = 4;  // seconds
  constexpr float kEdgeText = 10, kBoxTitle = 12;
  LayoutGraph graph;
  std::map<int, int> cluster_of;
  for (const PcgBox& box : view.boxes) {
    int parent = -1;
    for (int b = tree[box.block].parent; b > 0 && parent < 0; b = tree[b].parent)
      if (auto at = cluster_of.find(b); at != cluster_of.end()) parent = at->second;
    cluster_of[box.block] = static_cast<int>(graph.clusters.size());
    graph.clusters.push_back({parent, metrics.width(box.title, kBoxTitle, Face::strong) + 24, 16});
  }
  for (const PcgItem& item : view.items) {
    int cluster = -1;
    for (int b = tree[item.block].parent; b > 0 && cluster < 0; b = tree[b].parent)
      if (auto at = cluster_of.find(b); at != cluster_of.end()) cluster = at->second;
    graph.nodes.push_back({item.box.w, item.box.h, cluster});
  }
  for (const PcgEdge& edge : view.edges)
    graph.edges.push_back({edge.from, edge.to, metrics.width(edge.label, kEdgeText, Face::mono) + 8, 14});
  Layout layout = lay_out(graph, program, kPatience, stop);
  for (std::size_t i = 0; i < view.items.size(); ++i) {
    Rect& box = view.items[i].box;
    box.x = layout.nodes[i].x - box.w / 2;
    box.y = layout.nodes[i].y - box.h / 2;
  }
  for (std::size_t e = 0; e < view.edges.size(); ++e) {
    view.edges[e].path = std::move(layout.edges[e]);
    view.edges[e].label_at = layout.labels[e];
  }
  for (std::size_t b = 0; b < view.boxes.size(); ++b) view.boxes[b].box = layout.clusters[b];
  view.bounds = layout.bounds;
  view.note = layout.note;
}

PcgHit hit(const PcgView& view, Point at, float reach) {
  for (std::size_t i = 0; i < view.items.size(); ++i)
    if (view.items[i].box.contains(at)) return {.item = static_cast<int>(i)};
  for (std::size_t e = 0; e < view.edges.size(); ++e) {
    const std::vector<Point>& path = view.edges[e].path;
    for (std::size_t k = 1; k < path.size(); ++k) {
      Point a = path[k - 1], b = path[k];
      float dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
      float t = length > 0 ? std::clamp(((at.x - a.x) * dx + (at.y - a.y) * dy) / length, 0.0f, 1.0f) : 0;
      float ex = a.x + t * dx - at.x, ey = a.y + t * dy - at.y;
      if (ex * ex + ey * ey < reach * reach) return {.edge = static_cast<int>(e)};
    }
  }
  PcgHit result;
  for (std::size_t b = 0; b < view.boxes.size(); ++b) {
    const Rect& box = view.boxes[b].box;
    if (Rect{box.x, box.y, box.w, 24}.contains(at)) result.box = static_cast<int>(b);  // the innermost is the last
  }
  return result;
}

}  // namespace unity::gui
