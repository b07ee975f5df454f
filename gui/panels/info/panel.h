// The info panel: facts on the document and on what is selected.
#pragma once

#include "gui/panels/info/facts.h"
#include "gui/panels/panel.h"

namespace unity::gui {

class InfoPanel : public Panel {
 public:
  explicit InfoPanel(const PanelTools& tools) : tools_(tools) {}
  void draw(Ui& ui, Session& session) override;
  std::optional<Drawing> drawing(const Theme& theme) const override;

 private:
  PanelTools tools_;
  std::vector<Facts> shown_;  // drawn last, for export
};

}  // namespace unity::gui
