#include "gui/panels/pcg/panel.h"

#include <algorithm>
#include <sstream>

#include "core/base/text.h"

namespace unity::gui {
namespace {

constexpr std::size_t kMostOpen = 60;      // items that the first look at a graph may have
constexpr float kMarker = 22;              // width of what expands and collapses at a click
constexpr float kLegible = 0.85f;          // scale at which all texts can be read
constexpr std::size_t kLargeGraph = 5000;  // nodes whose layout is seen to take its time

// Labels count, too: panels show them.
Hash graph_hash(const Pcg& pcg) {
  Hash h = canonical_hash(pcg);
  for (const Node& node : pcg.nodes()) h = combine(h, hash_text(node.name));
  return h;
}

// What is expanded at first: nothing, or the only block there is.
std::set<std::string> first_open(const BlockTree& tree) {
  std::set<std::string> open;
  int at = 0;
  while (tree[at].children.size() == 1 && tree[at].children.size() < kMostOpen) {
    at = tree[at].children[0];
    if (tree[at].kind == Block::Kind::op) break;
    open.insert(tree[at].key);
  }
  return open;
}

}  // namespace

void PcgPanel::add_commands(Session& session) {
  auto have = [&session] { return session.document() != nullptr; };
  auto add = [&](const char* name, const char* label, const char* shortcut, auto run) {
    session.commands.add({name, label, shortcut, have, [run](const Arguments&) { run(); }});
  };
  add("pcg.fit", "Graph: show all", "Ctrl+0", [this] { canvas_.fit(); });
  add("pcg.expand_all", "Graph: expand all", "Ctrl+Shift+E", [this] { expand_all(true); });
  add("pcg.collapse_all", "Graph: collapse all", "Ctrl+E", [this] { expand_all(false); });
  add("pcg.search", "Graph: search", "Ctrl+F", [this] { focus_search_ = true; });
  add("pcg.weights", "Graph: show or hide weights", "", [this] { options_.weights = !options_.weights; });
  add("pcg.layouts", "Graph: show or hide parallelization", "", [this] { options_.layouts = !options_.layouts; });
  add("pcg.zoom_in", "Graph: zoom in", "Ctrl+=", [this] { canvas_.zoom(1.25f); });
  add("pcg.zoom_out", "Graph: zoom out", "Ctrl+-", [this] { canvas_.zoom(0.8f); });
  add("pcg.pan_left", "Graph: pan left", "Ctrl+Left", [this] { canvas_.pan({80, 0}); });
  add("pcg.pan_right", "Graph: pan right", "Ctrl+Right", [this] { canvas_.pan({-80, 0}); });
  add("pcg.pan_up", "Graph: pan up", "Ctrl+Up", [this] { canvas_.pan({0, 80}); });
  add("pcg.pan_down", "Graph: pan down", "Ctrl+Down", [this] { canvas_.pan({0, -80}); });
  add("pcg.toggle", "Graph: expand the selected block, or collapse the one around", "Enter", [this, &session] {
    const auto& shown = prepared_.data();
    const std::vector<NodeId>& nodes = session.selection().nodes;
    // Nodes have other numbers in the graph that is shown until the layout of this one is ready.
    if (!shown || nodes.empty() || shown->document->graph().size() != session.document()->graph().size()) return;
    for (std::size_t b = 1; b < shown->tree->blocks.size(); ++b) {
      const Block& block = shown->tree->blocks[b];
      if (block.parent < 0 || block.kind == Block::Kind::op || block.nodes != nodes) continue;
      toggle(block.key);
      return;
    }
    int around = (*shown->tree)[shown->tree->of_node[nodes[0].index()]].parent;
    if (around > 0) toggle((*shown->tree)[around].key);
  });
  add("pcg.show_selected", "Graph: show the selection", "Ctrl+G", [this, &session] {
    if (!session.selection().nodes.empty()) reveal(session.selection().nodes.front());
  });
  add("pcg.path", "Graph: paths from the selected operator to ..", "Ctrl+L", [this, &session] {
    path_from_ = session.selection().node();
    if (!path_from_.valid()) session.say("select an operator first; the next one that is selected ends the path");
  });
  for (std::size_t i = 0; i < colorings().size(); ++i)
    add(("pcg.color_" + colorings()[i]).c_str(), ("Graph: colour by " + colorings()[i]).c_str(),
        fmt::format("Ctrl+{}", i + 1).c_str(), [this, i] { coloring_ = static_cast<PcgColoring>(i); });
  session.commands.add({"pcg.expand", "Graph: expand a block", "", have,
                        [this](const Arguments& a) {
                          if (!a.contains("block")) throw_input_error("pcg.expand: needs the argument 'block'");
                          const auto& shown = prepared_.data();
                          if (!shown || shown->tree->find(a.at("block")) < 0)
                            throw_input_error("pcg.expand: the graph has no block '{}'", a.at("block"));
                          options_.open.insert(a.at("block"));
                        },
                        false});
  session.commands.add({"pcg.find", "Graph: search for ..", "", have,
                        [this](const Arguments& a) { query_ = a.contains("text") ? a.at("text") : ""; }, false});
}

std::string PcgPanel::save() const {
  std::string text = fmt::format("{} {} {}", static_cast<int>(coloring_), options_.weights, options_.layouts);
  for (const std::string& key : options_.open) text += "\n" + key;
  return text;
}

void PcgPanel::load(const std::string& text) {
  std::istringstream in(text);
  int coloring = 0;
  if (!(in >> std::boolalpha >> coloring >> options_.weights >> options_.layouts)) return;
  coloring_ = static_cast<PcgColoring>(std::clamp(coloring, 0, 4));
  std::string key;
  std::getline(in, key);
  while (std::getline(in, key)) options_.open.insert(key);
}

void PcgPanel::expand_all(bool open) {
  options_.open.clear();
  const auto& shown = prepared_.data();
  if (open && shown)
    for (const Block& block : shown->tree->blocks)
      if (block.kind != Block::Kind::op && block.parent >= 0) options_.open.insert(block.key);
  fit_next_ = !open;
  if (open) fit_all_next_ = true;
}

void PcgPanel::reveal(NodeId node) {
  const auto& shown = prepared_.data();
  if (!shown || node.index() >= shown->tree->of_node.size()) return;
  for (const std::string& key : around(*shown->tree, node)) options_.open.insert(key);
  show_next_ = node;
}

std::optional<Point> PcgPanel::corner(const std::string& key) const {
  const auto& shown = prepared_.data();
  if (!shown) return std::nullopt;
  for (const PcgItem& item : shown->view.items)
    if ((*shown->tree)[item.block].key == key) return Point{item.box.x, item.box.y};
  for (const PcgBox& box : shown->view.boxes)
    if ((*shown->tree)[box.block].key == key) return Point{box.box.x, box.box.y};
  return std::nullopt;
}

void PcgPanel::toggle(const std::string& key) {
  if (std::optional<Point> at = corner(key)) {
    anchor_ = key;
    anchor_at_ = *at;
  }
  if (options_.open.erase(key) == 0) options_.open.insert(key);
}

void PcgPanel::update(Session& session) {
  Snapshot document = session.document();
  if (document != document_) {
    bool other = !document_ || &document_->graph() != &document->graph();
    Hash graph = other ? graph_hash(document->graph()) : graph_;
    if (graph != graph_) {
      // A state that was restored says itself what is open.
      if (graph_ != 0) options_.open.clear();
      fit_next_ = true;
      fit_all_next_ = false;
      show_next_ = {};
      anchor_.clear();
      marked_.clear();
      marked_text_.clear();
      diff_ = {};
      compare_with_ = 0;
      path_from_ = {};
      query_.clear();
    }
    graph_ = graph;
    document_ = document;
  }
  prepared_.get(
      session, "layout", {document, options_, graph_},
      [tools = tools_](const Prepare& key, JobState& job) {
        Shown shown{key.document, std::make_shared<const BlockTree>(find_blocks(key.document->graph())), {}};
        PcgOptions options = key.options;
        options.open.merge(first_open(*shown.tree));
        shown.view = select_items(key.document->graph(), *shown.tree, options, tools.metrics);
        job.progress(0.3, "layout");
        place_items(shown.view, *shown.tree, tools.metrics, tools.program, job.stop());
        return shown;
      },
      document->graph().size() < kLargeGraph);
  const auto& shown = prepared_.data();
  if (!shown || shown->document->graph().size() != document->graph().size()) return;
  if (prepared_.current() && fit_next_) {
    canvas_.fit_legibly(kLegible);
    fit_next_ = false;
  }
  if (prepared_.current() && fit_all_next_) {
    canvas_.fit();
    fit_all_next_ = false;
  }
  if (prepared_.current() && !anchor_.empty()) {
    if (std::optional<Point> now = corner(anchor_)) {
      float scale = canvas_.view().scale;
      canvas_.pan({(anchor_at_.x - now->x) * scale, (anchor_at_.y - now->y) * scale});
    }
    anchor_.clear();
  }
  if (prepared_.current() && show_next_.valid()) {
    std::size_t node = show_next_.index();
    int item = node < shown->view.item_of_node.size() ? shown->view.item_of_node[node] : -1;
    if (item >= 0) canvas_.show(shown->view.items[static_cast<std::size_t>(item)].box);
    show_next_ = {};
  }
  PredictionPtr prediction = session.prediction();
  if (colored_version_ != prepared_.version() || colored_prediction_ != prediction.get() || colored_by_ != coloring_) {
    colors_ = color_items(document->graph(), shown->view, coloring_, prediction.get(), document->plan.get());
    colored_version_ = prepared_.version();
    colored_prediction_ = prediction.get();
    colored_by_ = coloring_;
  }
  const Selection& selection = session.selection();
  // Wherever the other end is selected: in the graph, among what was found, in the timeline.
  if (NodeId end = selection.node(); path_from_.valid() && end.valid() && end != path_from_) {
    marked_ = nodes_between(document->graph(), path_from_, end);
    marked_text_ =
        marked_.empty() ? "there is no path between them" : fmt::format("{} nodes on the paths", marked_.size());
    path_from_ = {};
  }
  int hovered = flags_.hovered;
  const std::vector<NodeId>* only = only_found_ && !query_.empty() ? &found_ : nullptr;
  if (selection.kind == Selection::Kind::device && document->plan) {
    if (on_device_of_ != std::pair(document->plan, selection.device)) {
      on_device_of_ = {document->plan, selection.device};
      on_device_ = nodes_on_device(*document->plan, selection.device);
    }
    only = &on_device_;
  }
  flags_ = flag_items(shown->view, selection.nodes, marked_, only);
  flags_.hovered = hovered;
  if (selection.kind == Selection::Kind::value) flags_.value = selection.value;
  if (compare_with_ > 0) {
    flags_.added = flag_items(shown->view, diff_.added, {}, nullptr).selected;
    flags_.changed = flag_items(shown->view, diff_.changed, {}, nullptr).selected;
  }
}

PcgLook PcgPanel::look(const Theme& theme) const { return {theme, tools_.metrics, &colors_, flags_}; }

std::optional<Drawing> PcgPanel::drawing(const Theme& theme) const {
  std::shared_ptr<const Shown> shown = prepared_.data();
  if (!shown) return std::nullopt;
  return Drawing{shown->view.bounds.grown(16), [this, shown, &theme](Painter& painter) {
                   paint_pcg(painter, shown->view, *shown->tree, shown->document->graph(), look(theme));
                 }};
}

void PcgPanel::click(Session& session, const PcgHit& hit, Point at, bool twice) {
  const Shown& shown = *prepared_.data();
  if (hit.item >= 0) {
    const PcgItem& item = shown.view.items[static_cast<std::size_t>(hit.item)];
    const Block& block = (*shown.tree)[item.block];
    if (block.kind != Block::Kind::op) {
      session.select(Selection::of(block.nodes));
      if (twice || at.x > item.box.right() - kMarker) toggle(block.key);
      return;
    }
    NodeId node = block.nodes[0];
    session.select(Selection::of(node));
  } else if (hit.edge >= 0) {
    session.select(Selection::of(shown.view.edges[static_cast<std::size_t>(hit.edge)].values[0]));
  } else if (hit.box >= 0) {
    const Block& block = (*shown.tree)[shown.view.boxes[static_cast<std::size_t>(hit.box)].block];
    if (twice || at.x < shown.view.boxes[static_cast<std::size_t>(hit.box)].box.x + kMarker) {
      toggle(block.key);
    } else {
      session.select(Selection::of(block.nodes));
    }
  } else {
    session.select({});
    marked_.clear();
    if (compare_with_ == 0) marked_text_.clear();
  }
}

void PcgPanel::draw_canvas(Ui& ui, Session& session) {
  const std::shared_ptr<const Shown> shown = prepared_.data();
  ImVec2 room = ImGui::GetContentRegionAvail();
  if (!shown || shown->document->graph().size() != document_->graph().size()) {
    ui.wrapped(prepared_.cancelled() ? "The layout was cancelled. What is shown, or expanded, starts it again."
                                     : "laying out ..",
               ui.theme().dim);
    return;
  }
  const Pcg& pcg = document_->graph();
  PcgLook now = look(ui.theme());
  Canvas::Input input = canvas_.draw(
      ui, "pcg", {room.x, room.y}, shown->view.bounds,
      [&](Painter& painter) { paint_pcg(painter, shown->view, *shown->tree, pcg, now); },
      [&](Painter& painter) {
        for (std::size_t i = 0; i < shown->view.items.size(); ++i) {
          int category = colors_.category[i];
          Color color = flags_.selected[i] ? ui.theme().selected
                        : category >= 0    ? ui.theme().category(category)
                                           : ui.theme().ramp(colors_.amount[i]);
          // Seen, however far away.
          Rect box = shown->view.items[i].box;
          float least = 2.5f / painter.scale();
          painter.rect({box.x, box.y, std::max(box.w, least), std::max(box.h, least)}, color, 0);
        }
      });
  flags_.hovered = -1;
  if (input.hovered) {
    PcgHit under = hit(shown->view, *input.hovered, 5 / canvas_.view().scale);
    flags_.hovered = under.item;
    if (input.double_clicked)
      click(session, under, *input.hovered, true);
    else if (input.clicked)
      click(session, under, *input.hovered, false);
    std::string tip;
    if (under.item >= 0) {
      const PcgItem& item = shown->view.items[static_cast<std::size_t>(under.item)];
      const Block& block = (*shown->tree)[item.block];
      const Node& node = pcg[block.nodes[0]];
      tip = block.kind == Block::Kind::op
                ? fmt::format("{}  {}\n{}", node.op->name(), node.name, to_string(node.outputs[0]))
                : fmt::format("{}\n{}\ndouble click expands", item.title, item.detail);
      if (!colors_.text[static_cast<std::size_t>(under.item)].empty())
        tip += "\n" + colors_.text[static_cast<std::size_t>(under.item)];
    } else if (under.edge >= 0) {
      std::vector<std::string> lines;
      for (ValueRef v : shown->view.edges[static_cast<std::size_t>(under.edge)].values) {
        if (lines.size() == 8) {
          lines.emplace_back("..");
          break;
        }
        lines.push_back(fmt::format("{}: {}", pcg[v.node].name, to_string(pcg.shape(v))));
      }
      tip = join(lines, "\n");
    } else if (under.box >= 0) {
      tip = "double click collapses";
    }
    if (!tip.empty()) ui.tooltip(tip);
  }
}

void PcgPanel::draw(Ui& ui, Session& session) {
  if (!session.document()) {
    ui.text("no document is open", ui.theme().dim);
    return;
  }
  if (session.document()->graph().size() == 0) {
    ui.wrapped(
        session.document()->sweep ? "The result of a sweep has no graph: see Experiments." : "This has no graph.",
        ui.theme().dim);
    return;
  }
  update(session);
  draw_toolbar(ui, session);
  draw_search(ui, session);
  draw_legend(ui);
  const auto& shown = prepared_.data();
  if (shown && !shown->view.note.empty()) {
    ui.same_line(16);
    ui.text("layout by ranks: " + shown->view.note, ui.theme().warning, Face::text, 12);
  }
  if (path_from_.valid()) ui.text("select the operator where the paths end", ui.theme().accent);
  if (!marked_text_.empty()) ui.text(marked_text_, ui.theme().accent);
  if (compare_with_ > 0 && !removed_.empty()) draw_removed(ui);
  draw_canvas(ui, session);
}

}  // namespace unity::gui
