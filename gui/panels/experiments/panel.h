// The experiments panel: the result of a sweep as a table, as plots of any of its columns, and as the figures that its
// experiment declares, with what others have published beside.
#pragma once

#include "gui/panels/experiments/view.h"
#include "gui/panels/panel.h"
#include "gui/widgets/canvas.h"

namespace unity::gui {

class ExperimentsPanel : public Panel {
 public:
  explicit ExperimentsPanel(const PanelTools& tools) : tools_(tools) { canvas_.most_scale = 1.25f; }
  void draw(Ui& ui, Session& session) override;
  void add_commands(Session& session) override;
  std::string save() const override;
  void load(const std::string& text) override;
  std::optional<Drawing> drawing(const Theme& theme) const override;

 private:
  enum class Shows : std::uint8_t { table, plot, figure };
  struct Key {
    std::shared_ptr<const Sweep> sweep;
    Shows shows = Shows::table;
    TableOptions table;
    PlotOptions plot;
    int figure = 0;
    bool operator==(const Key&) const = default;
  };
  struct Data {
    std::shared_ptr<const Sweep> sweep;
    std::vector<std::size_t> rows;
    ChartPage page;
  };

  void take(const Snapshot& document);
  void show(Shows shows);
  void draw_table(Ui& ui, Session& session);
  void draw_columns(Ui& ui);
  void draw_axes(Ui& ui);
  void draw_page(Ui& ui);
  void sort_by(const std::string& column);
  std::string csv(const Document& document) const;  // the rows and columns that are shown
  std::vector<std::string> shown_columns() const;
  std::vector<float> widths(const std::vector<std::string>& columns) const;

  PanelTools tools_;
  std::shared_ptr<const Sweep> sweep_;
  Shows shows_ = Shows::table;
  TableOptions table_;
  PlotOptions plot_;
  int figure_ = 0, row_ = -1;
  std::vector<std::string> columns_, all_columns_, numbers_;
  bool choosing_ = false;
  Prepared<Key, Data> data_;
  int fitted_ = -1;  // version of the data that the canvas was fitted to
  Canvas canvas_;
};

}  // namespace unity::gui
