#include "gui/panels/pcg/view.h"

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "gui/panels/pcg/relations.h"
#include "gui/widgets/svg_painter.h"
#include "tests/gui/support.h"
#include "tests/support/paths.h"

using namespace unity;
using namespace unity::gui;

namespace {

NodeId named(const Pcg& pcg, const std::string& label) {
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].name == label && !pcg.nodes()[i].is_parallelization())
      return NodeId(static_cast<std::int64_t>(i));
  return {};
}

}  // namespace

TEST_CASE("a collapsed graph shows its blocks, an expanded one their operators") {
  Pcg pcg = build_model({"bert-large", {}});
  BlockTree tree = find_blocks(pcg);
  PcgView collapsed = select_items(pcg, tree, {}, {});
  CHECK(collapsed.items.size() < 10);
  CHECK(std::any_of(collapsed.items.begin(), collapsed.items.end(),
                    [](const PcgItem& item) { return item.title == "24 x encoder"; }));
  PcgOptions all;
  for (const Block& block : tree.blocks) all.open.insert(block.key);
  PcgView expanded = select_items(pcg, tree, all, {});
  // 708 operators and 3 inputs; weights belong to what reads them.
  CHECK(expanded.items.size() == 711);
  all.weights = true;
  CHECK(select_items(pcg, tree, all, {}).items.size() == pcg.size());
}

TEST_CASE("every node belongs to an item, and items to the nodes") {
  Snapshot plan = small_plan();
  const Pcg& pcg = plan->graph();
  BlockTree tree = find_blocks(pcg);
  for (bool weights : {false, true})
    for (bool layouts : {false, true}) {
      PcgView view = select_items(pcg, tree, {{}, weights, layouts}, {});
      std::size_t nodes = 0;
      for (const PcgItem& item : view.items) nodes += item.nodes.size();
      CHECK(nodes == pcg.size());
      for (std::size_t i = 0; i < pcg.size(); ++i) REQUIRE(view.item_of_node[i] >= 0);
      for (const PcgEdge& edge : view.edges) CHECK(edge.from != edge.to);
    }
}

TEST_CASE("edges show shapes with degrees, copies and partials") {
  CHECK(edge_text({{{64, 2}, {512, 1}}, 3, 1}) == "[64/2, 512] copies 3");
  CHECK(edge_text({{{64, 1}}, 1, 2, Monoid::sum, DType::i32}) == "i32[64] partials 2");
}

TEST_CASE("a search finds operators by words of operator and label, those that compute first") {
  Pcg pcg = build_model({"bert-large", {}});
  std::vector<NodeId> found = search_nodes(pcg, "encoder.3. softmax");
  REQUIRE(found.size() == 1);
  CHECK(pcg[found[0]].name == "encoder.3.attention.softmax");
  CHECK(search_nodes(pcg, "kind:softmax").size() == 24);
  CHECK(search_nodes(pcg, "").empty());
  CHECK(around(find_blocks(pcg), found[0]).size() >= 2);
}

TEST_CASE("paths between two operators hold both ends and all that lies between") {
  Pcg pcg = parse_pcg(
      "pcg p {\n  x = input([4])\n  a = relu(x)\n  b = gelu(a)\n  c = tanh(a)\n  d = add(b, c)\n  e = sigmoid(x)\n"
      "  f = add(d, e)\n  return f\n}\n");
  auto names = [&](const std::vector<NodeId>& nodes) {
    std::string text;
    for (NodeId id : nodes) text += pcg[id].name + " ";
    return text;
  };
  CHECK(names(nodes_between(pcg, named(pcg, "a"), named(pcg, "d"))) == "a b c d ");
  CHECK(names(nodes_between(pcg, named(pcg, "d"), named(pcg, "a"))) == "a b c d ");
  CHECK(nodes_between(pcg, named(pcg, "b"), named(pcg, "e")).empty());
}

TEST_CASE("a diff of two graphs says what was added, changed and removed") {
  Pcg before = parse_pcg("pcg p {\n  x = input([4])\n  a = relu(x)\n  b = gelu(a)\n  return b\n}\n");
  Pcg after = parse_pcg("pcg p {\n  x = input([4])\n  a = relu(x)\n  n = tanh(a)\n  b = gelu(n)\n  return b\n}\n");
  PcgDiff diff = diff_graphs(before, after);
  REQUIRE(diff.added.size() == 1);
  CHECK(after[diff.added[0]].name == "n");
  REQUIRE(diff.changed.size() == 1);  // gelu reads another operand
  CHECK(after[diff.changed[0]].name == "b");
  CHECK(diff.removed.empty());
  CHECK(diff_graphs(after, before).removed.size() == 1);
  CHECK(diff_graphs(before, before).changed.empty());
}

TEST_CASE("dot places every item without overlap, and so do ranks when there is no dot") {
  Snapshot plan = small_plan();
  BlockTree tree = find_blocks(plan->graph());
  PcgOptions options;
  for (const Block& block : tree.blocks) options.open.insert(block.key);
  for (std::string program : {std::string(UNITY_BINARY_DIR) + "/bin/unity-gui", std::string("/nowhere/unity-gui")}) {
    PcgView view = select_items(plan->graph(), tree, options, {});
    place_items(view, tree, {}, program);
    CHECK(view.note.empty() == (program[1] != 'n'));
    std::size_t overlaps = 0;
    for (std::size_t i = 0; i < view.items.size(); ++i)
      for (std::size_t j = i + 1; j < view.items.size(); ++j)
        overlaps += view.items[i].box.grown(-0.5f).meets(view.items[j].box.grown(-0.5f)) ? 1 : 0;
    CHECK(overlaps == 0);
    for (const PcgEdge& edge : view.edges) CHECK(edge.path.size() >= 2);
    for (const PcgItem& item : view.items) {
      Rect all = view.bounds.grown(2);
      CHECK((all.contains({item.box.x, item.box.y}) && all.contains({item.box.right(), item.box.bottom()})));
    }
  }
}

TEST_CASE("a layout that takes too long is killed") {
  LayoutGraph graph;
  for (int i = 0; i < 2000; ++i) graph.nodes.push_back({40, 20, -1});
  for (int i = 0; i < 8000; ++i) graph.edges.push_back({i * 7 % 1000, 1000 + i * 13 % 1000, 0, 0});
  Layout layout = lay_out(graph, std::string(UNITY_BINARY_DIR) + "/bin/unity-gui", 0.05);
  CHECK(layout.note == "dot took more than 0 s");
  CHECK(layout.nodes.size() == 2000);
}

TEST_CASE("ranks lay out graphs with cycles, too") {
  LayoutGraph graph;
  graph.nodes = {{10, 10, -1}, {10, 10, -1}, {10, 10, -1}};
  graph.edges = {{0, 1, 0, 0}, {1, 2, 0, 0}, {2, 0, 0, 0}};
  Layout layout = lay_out_by_ranks(graph);
  CHECK(layout.nodes[0].y < layout.nodes[1].y);
  CHECK(layout.nodes[1].y < layout.nodes[2].y);
}

TEST_CASE("a drawing exports as SVG that holds its texts") {
  Pcg pcg = build_model({"mlp-mnist", {}});
  BlockTree tree = find_blocks(pcg);
  PcgOptions all;
  for (const Block& block : tree.blocks) all.open.insert(block.key);
  PcgView view = select_items(pcg, tree, all, {});
  place_items(view, tree, {}, "/nowhere");
  Theme theme = make_theme(false);
  TextMetrics metrics;
  SvgPainter painter(view.bounds, theme.canvas);
  paint_pcg(painter, view, tree, pcg, {theme, metrics, nullptr, {}});
  std::string svg = painter.document();
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.find(">matmul</text>") != std::string::npos);
  CHECK(svg.ends_with("</svg>\n"));
}
