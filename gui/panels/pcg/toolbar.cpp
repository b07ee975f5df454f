// What stands above the graph: toolbar, results of a search, what another graph had, the legend of colours.
#include <algorithm>
#include <utility>

#include "gui/panels/pcg/panel.h"
#include "gui/widgets/lines.h"

namespace unity::gui {
namespace {

constexpr float kCompare = 160;          // width of the choice of another graph
constexpr std::size_t kMostFound = 200;  // that the list shows

}  // namespace

void PcgPanel::draw_toolbar(Ui& ui, Session& session) {
  ui.input("search", query_, "search operators", 170, focus_search_);
  focus_search_ = false;
  ui.flow(8, 146);
  ui.text("colour", ui.theme().dim);
  ui.same_line(6);
  int coloring = static_cast<int>(coloring_);
  if (ui.choose("coloring", colorings(), coloring, 124, "What the colours of operators show (Ctrl+1 to Ctrl+5)"))
    coloring_ = static_cast<PcgColoring>(coloring);
  ui.flow();
  if (ui.button("expand all", icon::kExpand, "Expand all blocks (Ctrl+Shift+E)")) expand_all(true);
  ui.flow(4);
  if (ui.button("collapse all", icon::kCollapse, "Collapse all blocks (Ctrl+E)")) expand_all(false);
  ui.flow(4);
  if (ui.button("fit", icon::kFit, "Show the whole graph (Ctrl+0)")) canvas_.fit();
  ui.flow(4);
  if (ui.button("path", icon::kPath,
                "Mark all paths from the selected operator to the one that is selected next (Ctrl+L)",
                session.selection().node().valid(), path_from_.valid()))
    path_from_ = session.selection().node();
  ui.flow();
  ui.checkbox("weights", "weights", options_.weights, "Show weights as nodes of their own, else below their operator");
  ui.flow();
  ui.checkbox("layouts", "layouts", options_.layouts,
              "Show partition, combine, replicate and reduce, which say how data lie on devices");
  if (session.files().size() > 1) {
    std::vector<std::string> names = {"compare with .."};
    for (const std::string& title : session.titles()) names.push_back(title);
    if (compare_with_ >= static_cast<int>(names.size())) compare_with_ = 0;
    ui.flow();
    if (ui.choose("compare", names, compare_with_, kCompare,
                  "Mark what was added (green) and changed (orange) since another graph")) {
      diff_ = {};
      marked_text_.clear();
      removed_.clear();
      if (compare_with_ > 0) {
        const auto& other = session.files()[static_cast<std::size_t>(compare_with_ - 1)]->history.now();
        diff_ = diff_graphs(other->graph(), document_->graph());
        marked_text_ =
            fmt::format("{} added, {} changed, {} removed since {}", diff_.added.size(), diff_.changed.size(),
                        diff_.removed.size(), session.titles()[static_cast<std::size_t>(compare_with_ - 1)]);
        for (NodeId id : diff_.removed) {
          const Node& node = other->graph()[id];
          removed_.push_back(fmt::format("{}  {}", node.op->name(), node.name));
        }
      }
    }
  }
}

void PcgPanel::draw_search(Ui& ui, Session& session) {
  if (std::pair wanted(query_, graph_); found_for_ != wanted) {
    found_ = search_nodes(document_->graph(), query_);
    found_for_ = wanted;
  }
  if (query_.empty()) return;
  ui.text(fmt::format("{} found", found_.size()), ui.theme().dim);
  ui.same_line();
  ui.checkbox("only found", "fade the others", only_found_);
  if (found_.empty()) return;
  float height = std::min(static_cast<float>(found_.size()), 6.0f) * ImGui::GetTextLineHeightWithSpacing();
  ImGui::BeginChild("found", {0, height});
  for (std::size_t i = 0; i < std::min(found_.size(), kMostFound); ++i) {
    const Node& node = document_->graph()[found_[i]];
    std::string label = node.name.empty() ? fmt::format("#{}", found_[i].value) : node.name;
    if (ui.selectable(fmt::format("found {}", found_[i].value), label, session.selection().holds(found_[i]),
                      node.op->name())) {
      session.select(Selection::of(found_[i]));
      reveal(found_[i]);
    }
  }
  ImGui::EndChild();
}

void PcgPanel::draw_removed(Ui& ui) {
  ImGui::BeginChild("removed", {0, std::min(static_cast<float>(removed_.size()), 4.0f) * ui.unit(kLine)});
  float width = ImGui::GetContentRegionAvail().x / ui.fonts().scale() - 12;
  draw_lines(ui, removed_.size(), -1, [&](std::size_t i) {
    ui.text(elide(tools_.metrics, "removed  " + removed_[i], 13, Face::mono, width), ui.theme().error, Face::mono, 13);
  });
  ImGui::EndChild();
}

void PcgPanel::draw_legend(Ui& ui) {
  const Theme& theme = ui.theme();
  if (!colors_.high.empty()) return ui.ramp(colors_.low, colors_.high, 160, Face::mono);
  bool first = true;
  for (const auto& [category, name] : colors_.legend) {
    if (!std::exchange(first, false)) ui.flow(14);
    ui.swatch(theme.category(category), name);
  }
}

}  // namespace unity::gui
