// The PCG panel: the graph of the active document.
#pragma once

#include "gui/panels/panel.h"
#include "gui/panels/pcg/relations.h"
#include "gui/panels/pcg/view.h"
#include "gui/widgets/canvas.h"

namespace unity::gui {

class PcgPanel : public Panel {
 public:
  explicit PcgPanel(const PanelTools& tools) : tools_(tools) {}
  void draw(Ui& ui, Session& session) override;
  void add_commands(Session& session) override;
  std::string save() const override;
  void load(const std::string& text) override;
  std::optional<Drawing> drawing(const Theme& theme) const override;

 private:
  struct Prepare {
    Snapshot document;
    PcgOptions options;
    Hash graph = 0;  // mappings and what-if factors do not change it
    bool operator==(const Prepare& o) const {
      return options == o.options && graph == o.graph && document->title == o.document->title;
    }
  };
  struct Shown {
    Snapshot document;
    std::shared_ptr<const BlockTree> tree;
    PcgView view;
  };

  void draw_toolbar(Ui& ui, Session& session);
  void draw_search(Ui& ui, Session& session);
  void draw_removed(Ui& ui);
  void draw_legend(Ui& ui);
  void draw_canvas(Ui& ui, Session& session);
  void update(Session& session);
  void click(Session& session, const PcgHit& hit, Point at, bool twice);
  void reveal(NodeId node);
  void toggle(const std::string& key);  // expands or collapses a block
  std::optional<Point> corner(const std::string& key) const;
  void expand_all(bool open);
  PcgLook look(const Theme& theme) const;

  PanelTools tools_;
  Canvas canvas_;
  Prepared<Prepare, Shown> prepared_;
  PcgOptions options_;
  PcgColoring coloring_ = PcgColoring::kind;
  ItemColors colors_;
  std::string query_;
  std::vector<NodeId> found_;
  std::pair<std::string, Hash> found_for_;  // query and graph
  bool only_found_ = false, focus_search_ = false;
  NodeId path_from_;            // a click on another operator marks the paths from here
  std::vector<NodeId> marked_;  // path, or diff
  PcgDiff diff_;
  std::string marked_text_;
  std::vector<std::string> removed_;  // operators of the other graph that this one has not
  int compare_with_ = 0;              // 0: none; else the document's number + 1
  Snapshot document_;
  Hash graph_ = 0;
  // What the colours were made of.
  int colored_version_ = -1;
  const void* colored_prediction_ = nullptr;
  PcgColoring colored_by_ = PcgColoring::kind;
  bool fit_next_ = true, fit_all_next_ = false;
  NodeId show_next_;
  // What stays where it is on the screen when a block is expanded or collapsed: a block and its corner before.
  std::string anchor_;
  Point anchor_at_;
  PcgFlags flags_;
  // The nodes with tasks on the selected device.
  std::pair<std::shared_ptr<const Plan>, DeviceId> on_device_of_;
  std::vector<NodeId> on_device_;
};

}  // namespace unity::gui
