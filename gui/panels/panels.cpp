#include "gui/panels/experiments/panel.h"
#include "gui/panels/info/panel.h"
#include "gui/panels/machine/panel.h"
#include "gui/panels/pcg/panel.h"
#include "gui/panels/rules/panel.h"
#include "gui/panels/search/panel.h"
#include "gui/panels/timeline/panel.h"

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
