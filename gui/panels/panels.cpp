#include "gui/panels/info/panel.h"
#include "gui/panels/machine/panel.h"
#include "gui/panels/pcg/panel.h"

namespace unity::gui {

std::vector<PanelInfo> make_panels(const PanelTools& tools) {
  std::vector<PanelInfo> panels;
#define UNITY_PANEL(folder, type, title, icon, area) \
  panels.push_back({#folder, title, icon, area, std::make_unique<type>(tools), true});
#include "gui/panels/panels.def"
#undef UNITY_PANEL
  return panels;
}

}  // namespace unity::gui
