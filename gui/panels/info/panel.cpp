#include "gui/panels/info/panel.h"

#include <algorithm>

namespace unity::gui {
namespace {

constexpr float kLabel = 132, kColumn = 400, kValueSize = 13;

void draw_facts(Ui& ui, const TextMetrics& metrics, const Facts& facts, float width) {
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {8, ui.unit(2)});
  ui.text(elide(metrics, facts.title, 15, Face::strong, width), ui.theme().text, Face::strong, 15);
  for (const auto& [label, value] : facts.lines) {
    std::string shown = elide(metrics, value, kValueSize, Face::mono, width - kLabel - 8);
    ui.fact(elide(metrics, label, 14, Face::text, kLabel - 6), shown, kLabel);
    if (shown != value) ui.tooltip(value);
  }
  ImGui::PopStyleVar();
}

}  // namespace

void InfoPanel::draw(Ui& ui, Session& session) {
  Snapshot document = session.document();
  if (!document) {
    ui.text("no document is open", ui.theme().dim);
    return;
  }
  PredictionPtr prediction = session.prediction();
  std::vector<Facts> columns = {document_facts(*document, prediction.get())};
  for (Facts& facts : selection_facts(*document, session.selection(), prediction.get()))
    columns.push_back(std::move(facts));
  shown_ = columns;
  float room = ImGui::GetContentRegionAvail().x;
  float width = std::min(ui.unit(kColumn) * 1.25f, room / static_cast<float>(std::max<std::size_t>(columns.size(), 3)));
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (c > 0) ImGui::SameLine(0, 0);
    ImGui::BeginChild(static_cast<int>(c) + 1, {width, 0});
    draw_facts(ui, tools_.metrics, columns[c], width / ui.fonts().scale() - 24);
    ImGui::EndChild();
  }
  if (columns.size() == 1) {
    ImGui::SameLine(0, 0);
    ImGui::BeginChild("hint", {0, 0});
    ui.wrapped(
        "Click an operator, a block, a tensor (an edge of the graph), a device or a link to see all about it. A "
        "click on + or a double click expands a block, on - or the title of an expanded one it collapses it.",
        ui.theme().dim);
    ImGui::EndChild();
  }
}

std::optional<Drawing> InfoPanel::drawing(const Theme& theme) const {
  if (shown_.empty()) return std::nullopt;
  constexpr float kLine = 20;
  std::size_t lines = 0;
  for (const Facts& facts : shown_) lines = std::max(lines, facts.lines.size());
  Rect area{0, 0, kColumn * static_cast<float>(shown_.size()) + 20, kLine * static_cast<float>(lines + 2)};
  return Drawing{area, [columns = shown_, metrics = tools_.metrics, &theme](Painter& painter) {
                   for (std::size_t c = 0; c < columns.size(); ++c) {
                     float x = 10 + kColumn * static_cast<float>(c), y = kLine;
                     painter.text({x, y}, columns[c].title, {15, theme.text, Face::strong});
                     for (const auto& [label, value] : columns[c].lines) {
                       y += kLine;
                       painter.text({x, y}, label, {14, theme.dim});
                       painter.text({x + kLabel, y},
                                    elide(metrics, value, kValueSize, Face::mono, kColumn - kLabel - 16),
                                    {kValueSize, theme.text, Face::mono});
                     }
                   }
                 }};
}

}  // namespace unity::gui
