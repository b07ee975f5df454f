// The info panel: facts on the document and on what is selected.
#pragma once

#include "gui/panels/info/facts.h"
#include "gui/panels/panel.h"

namespace unity::gui {

class InfoPanel : public Panel {
 public:
  explicit InfoPanel(const PanelTools& tools) : tools_(tools) {}
  void draw(Ui& ui, Session& session) override;

 private:
  PanelTools tools_;
};

}  // namespace unity::gui
