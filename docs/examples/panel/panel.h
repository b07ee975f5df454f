// A panel that counts the operators of the document in front by kind.
#pragma once

#include "docs/examples/panel/view.h"
#include "gui/panels/panel.h"

namespace unity::gui {

class KindsPanel : public Panel {
 public:
  explicit KindsPanel(const PanelTools&) {}
  void draw(Ui& ui, Session& session) override;
  void add_commands(Session& session) override;
  std::string save() const override { return by_name_ ? "name" : ""; }
  void load(const std::string& text) override { by_name_ = text == "name"; }

 private:
  Prepared<Snapshot, std::vector<KindCount>> counts_;
  bool by_name_ = false;
};

}  // namespace unity::gui
