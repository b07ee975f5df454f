// The search panel: what is searched for, and what the search that runs, or ran last, has found and left out.
#pragma once

#include "gui/panels/panel.h"
#include "gui/panels/search/view.h"

namespace unity::gui {

class SearchPanel : public Panel {
 public:
  explicit SearchPanel(const PanelTools& tools);
  void draw(Ui& ui, Session& session) override;
  void add_commands(Session& session) override;
  std::string save() const override;
  void load(const std::string& text) override;
  std::optional<Drawing> drawing(const Theme& theme) const override;

 private:
  void draw_request(Ui& ui, Session& session);
  void draw_settings(Ui& ui);
  void draw_status(Ui& ui, Session& session);
  void start(Session& session);
  void open_plan(Session& session, std::size_t index);
  void remember(const std::string& name, const std::string& value);
  void forget_sizes();  // of the model: back to its defaults
  void remember_sizes(const Plan& plan);

  PanelTools tools_;
  SearchRequest request_;
  std::map<std::string, std::string> set_;  // what was set, by its name: texts that fields show
  std::vector<std::string> models_, topologies_, strategies_;
  bool all_settings_ = false;
  std::string problem_;
  SearchView shown_;  // drawn last, for export
};

}  // namespace unity::gui
