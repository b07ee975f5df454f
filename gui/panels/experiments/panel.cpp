#include "gui/panels/experiments/panel.h"

#include <algorithm>
#include <sstream>

#include "core/base/text.h"
#include "gui/widgets/chart_view.h"
#include "gui/widgets/lines.h"

namespace unity::gui {
namespace {

constexpr float kLeast = 46, kMost = 210, kGap = 14;

int place_of(const std::vector<std::string>& list, const std::string& value) {
  auto at = std::find(list.begin(), list.end(), value);
  return at == list.end() ? 0 : static_cast<int>(at - list.begin());
}

// "samples_per_second" -> "samples per second"
std::string in_words(std::string column) {
  std::replace(column.begin(), column.end(), '_', ' ');
  for (const char* unit : {" seconds", " bytes"})
    if (column.ends_with(unit)) column.resize(column.size() - std::string_view(unit).size());
  return column;
}

void write_csv(Session& session, const std::string& text, const std::string& file) {
  write_file_atomically(file, text);
  session.say(fmt::format("table written to {}", file));
}

}  // namespace

void ExperimentsPanel::add_commands(Session& session) {
  auto have = [&session] { return session.document() && session.document()->sweep; };
  session.commands.add({"experiments.table", "Experiments: table", "Ctrl+Shift+1", have,
                        [this](const Arguments&) { show(Shows::table); }});
  session.commands.add(
      {"experiments.plot", "Experiments: plot", "Ctrl+Shift+2", have, [this](const Arguments&) { show(Shows::plot); }});
  session.commands.add({"experiments.figures", "Experiments: next figure, with those of others beside ours",
                        "Ctrl+Shift+3", have, [this](const Arguments& a) {
                          if (a.contains("figure")) {
                            int figure = std::atoi(a.at("figure").c_str());
                            if (figure < 0)
                              throw_input_error("experiments.figures: found {}, expected a number from 0 on", figure);
                            figure_ = figure;
                          } else if (shows_ == Shows::figure) {
                            ++figure_;
                          }
                          show(Shows::figure);
                        }});
  session.commands.add(
      {"experiments.sort", "Experiments: sort by the next column", "Ctrl+Shift+4", have, [this](const Arguments& a) {
         if (a.contains("column")) return sort_by(a.at("column"));
         std::vector<std::string> columns = shown_columns();
         if (columns.empty()) return;
         auto at = static_cast<std::size_t>(place_of(columns, table_.sort)) + (table_.sort.empty() ? 0 : 1);
         table_.sort = columns[at % columns.size()];
       }});
  session.commands.add({"experiments.columns", "Experiments: choose columns", "Ctrl+Shift+5", have,
                        [this](const Arguments&) { choosing_ = !choosing_; }});
  session.commands.add({"experiments.export_csv", "Experiments: export the table as CSV", "Ctrl+Shift+X", have,
                        [this, &session](const Arguments& a) {
                          // Another table may be in front by the time the path is known.
                          std::string text = csv(*session.document());
                          if (a.contains("file")) return write_csv(session, text, a.at("file"));
                          session.ask_path("Export the table as", session.document()->title + ".csv",
                                           [&session, text](const std::string& path) {
                                             try {
                                               write_csv(session, text, path);
                                             } catch (const InputError& error) {
                                               session.complain(error.what());
                                             }
                                           });
                        }});
  session.commands.add({"experiments.open_plan", "Experiments: open the plan of the chosen row", "Ctrl+Shift+O",
                        [this, have] { return have() && row_ >= 0; },
                        [this, &session](const Arguments&) {
                          const Snapshot& document = session.document();
                          const auto& rows = document->sweep->results.rows;
                          if (static_cast<std::size_t>(row_) >= rows.size()) return;
                          std::string path = plan_path(rows[static_cast<std::size_t>(row_)], document->request.source);
                          if (path.empty()) throw_input_error("this row has no plan");
                          session.open({.source = path});
                        }});
  session.commands.add({"experiments.filter", "Experiments: show rows with ..", "", have,
                        [this](const Arguments& a) { table_.filter = a.contains("text") ? a.at("text") : ""; }, false});
  session.commands.add({"experiments.axes", "Experiments: plot ..", "", have,
                        [this, &session](const Arguments& a) {
                          take(session.document());
                          auto text = [&](const char* key, std::string& to) {
                            if (a.contains(key)) to = a.at(key);
                          };
                          auto flag = [&](const char* key, bool& to) {
                            if (a.contains(key)) to = a.at(key) == "true";
                          };
                          text("x", plot_.x), text("y", plot_.y), text("series", plot_.series);
                          text("panels", plot_.panels);
                          flag("lines", plot_.lines), flag("log-x", plot_.log_x), flag("log-y", plot_.log_y);
                          show(Shows::plot);
                        },
                        false});
}

std::string ExperimentsPanel::save() const { return fmt::format("{}", static_cast<int>(shows_)); }

void ExperimentsPanel::load(const std::string& text) {
  shows_ = static_cast<Shows>(std::clamp(std::atoi(text.c_str()), 0, 2));
}

void ExperimentsPanel::show(Shows shows) {
  shows_ = shows;
  choosing_ = false;
}

void ExperimentsPanel::take(const Snapshot& document) {
  if (sweep_ == document->sweep) return;
  sweep_ = document->sweep;
  table_ = {};
  plot_ = first_plot(sweep_->results);
  all_columns_ = gui::columns_of(sweep_->results);
  columns_ = telling_columns(sweep_->results);
  numbers_ = number_columns(sweep_->results);
  figure_ = 0;
  row_ = -1;
}

std::vector<std::string> ExperimentsPanel::shown_columns() const { return columns_; }

void ExperimentsPanel::sort_by(const std::string& column) {
  if (table_.sort == column && table_.descending) {
    table_.sort.clear();
    table_.descending = false;
  } else {
    table_.descending = table_.sort == column;
    table_.sort = column;
  }
}

std::string ExperimentsPanel::csv(const Document& document) const {
  std::vector<report::ResultRow> rows;
  const report::Results& results = document.sweep->results;
  for (std::size_t r : table_rows(results, table_)) rows.push_back(results.rows[r]);
  return report::to_csv(sweep_ == document.sweep ? columns_ : all_columns_, rows);
}

std::vector<float> ExperimentsPanel::widths(const std::vector<std::string>& columns) const {
  std::vector<float> widths;
  for (const std::string& column : columns) {
    float width = tools_.metrics.width(in_words(column), 14, Face::strong) + 14;
    const auto& rows = sweep_->results.rows;
    for (std::size_t r = 0; r < rows.size(); r += 1 + rows.size() / 200)
      width = std::max(width, tools_.metrics.width(cell_text(rows[r], column), 13, Face::mono));
    widths.push_back(std::clamp(width, kLeast, kMost));
  }
  return widths;
}

std::optional<Drawing> ExperimentsPanel::drawing(const Theme& theme) const {
  auto data = data_.data();
  if (!data || !sweep_ || data->sweep != sweep_) return std::nullopt;
  if (shows_ != Shows::table) {
    auto [width, height] = report::page_size(data->page.title, data->page.charts);
    return Drawing{{0, 0, static_cast<float>(width), static_cast<float>(height)}, [data, &theme](Painter& painter) {
                     PainterSheet sheet(painter, theme);
                     report::draw_page(sheet, data->page.title, data->page.charts);
                   }};
  }
  std::vector<std::string> columns = shown_columns();
  std::vector<float> wide = widths(columns);
  float width = kGap;
  for (float w : wide) width += w + kGap;
  float height = kLine * static_cast<float>(data->rows.size() + 2);
  return Drawing{{0, 0, width, height}, [data, columns, wide, &theme](Painter& painter) {
                   float x = kGap;
                   for (std::size_t c = 0; c < columns.size(); ++c) {
                     painter.text({x, kLine}, in_words(columns[c]), {14, theme.text, Face::strong, Align::left});
                     for (std::size_t r = 0; r < data->rows.size(); ++r)
                       painter.text({x, kLine * static_cast<float>(r + 2)},
                                    cell_text(data->sweep->results.rows[data->rows[r]], columns[c]),
                                    {13, theme.text, Face::mono, Align::left});
                     x += wide[c] + kGap;
                   }
                 }};
}

void ExperimentsPanel::draw(Ui& ui, Session& session) {
  Snapshot document = session.document();
  if (!document || !document->sweep) {
    ui.wrapped("Open what unity sweep has written: its folder, or results.json in it (Ctrl+O, or drop it here).",
               ui.theme().dim);
    return;
  }
  take(document);
  bool figures = !sweep_->figures.empty();
  for (auto [name, label, shows, tip] :
       {std::tuple("as table", "Table", Shows::table, std::string("All points (Ctrl+Shift+1)")),
        {"as plot", "Plot", Shows::plot, "Any number over any column (Ctrl+Shift+2)"},
        {"as figures", "Figures", Shows::figure,
         figures ? "What the experiment declares, theirs beside ours (Ctrl+Shift+3)" : sweep_->note}}) {
    if (ui.button(name, label, tip, shows != Shows::figure || figures, shows_ == shows)) show(shows);
    ui.flow(4);
  }
  if (shows_ == Shows::figure && sweep_->figures.empty()) shows_ = Shows::table;
  if (!sweep_->figures.empty()) figure_ = figure_ % static_cast<int>(sweep_->figures.size());
  ui.flow();
  if (ui.button("export csv", "CSV", "Export the rows that are shown (Ctrl+Shift+X); views export as SVG and PNG"))
    session.commands.run("experiments.export_csv").value();
  data_.get(session, "experiment", {sweep_, shows_, table_, plot_, figure_}, [](const Key& key, JobState&) {
    const report::Results& results = key.sweep->results;
    Data data{key.sweep, {}, {}};
    if (key.shows == Shows::table) data.rows = table_rows(results, key.table);
    if (key.shows == Shows::plot) data.page = chart_page(figure_of(key.plot, results), results);
    if (key.shows == Shows::figure)
      data.page = chart_page(key.sweep->figures[static_cast<std::size_t>(key.figure)], results);
    return data;
  });
  if (shows_ == Shows::table) return draw_table(ui, session);
  draw_axes(ui);
  draw_page(ui);
}

void ExperimentsPanel::draw_columns(Ui& ui) {
  float width = ImGui::GetContentRegionAvail().x, x = 0;
  for (const std::string& column : all_columns_) {
    float needs = ui.unit(tools_.metrics.width(in_words(column), 14) + 46);
    if (x > 0 && x + needs < width) ImGui::SameLine(x);
    if (x > 0 && x + needs >= width) x = 0;
    auto at = std::find(columns_.begin(), columns_.end(), column);
    bool shown = at != columns_.end();
    if (ui.checkbox("column " + column, in_words(column), shown)) {
      if (shown) {
        std::vector<std::string> now = columns_;
        now.push_back(column);
        columns_.clear();
        for (const std::string& c : all_columns_)
          if (std::find(now.begin(), now.end(), c) != now.end()) columns_.push_back(c);
      } else {
        columns_.erase(at);
      }
    }
    x += needs;
  }
}

void ExperimentsPanel::draw_table(Ui& ui, Session& session) {
  const Theme& theme = ui.theme();
  ui.flow();
  ui.input("filter rows", table_.filter, "rows with: words, devices=4, nodes>1", 250);
  ui.flow();
  if (ui.button("columns", "Columns", "Choose what is shown (Ctrl+Shift+5)", true, choosing_)) choosing_ = !choosing_;
  if (row_ >= 0) {
    ui.flow();
    if (ui.button("open row", "Open plan", "The plan of the chosen row (Ctrl+Shift+O)")) {
      Result<void> done = session.commands.run("experiments.open_plan");
      if (!done.ok()) session.complain(done.error().message);
    }
  }
  if (choosing_) draw_columns(ui);
  const auto& data = data_.data();
  if (!data || data->sweep != sweep_) return ui.text("reading ..", theme.dim);
  std::vector<std::string> columns = shown_columns();
  std::vector<float> wide = widths(columns);
  float total = kGap;
  for (float w : wide) total += w + kGap;
  ui.text(fmt::format("{} of {} points", data->rows.size(), sweep_->results.rows.size()), theme.dim);
  ImGui::SetNextWindowContentSize({ui.unit(total), 0});
  ImGui::BeginChild("table", {0, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
  float x = 0;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (c > 0) ImGui::SameLine(ui.unit(x));
    std::string label = elide(tools_.metrics, in_words(columns[c]), 14, Face::text, wide[c] - 10);
    if (table_.sort == columns[c]) label += table_.descending ? " \xe2\x86\x93" : " \xe2\x86\x91";
    if (ui.link("sort " + columns[c], label, columns[c] + ": click to sort")) sort_by(columns[c]);
    x += wide[c] + kGap;
  }
  draw_lines(ui, data->rows.size(), -1, [&](std::size_t i) {
    const report::ResultRow& row = sweep_->results.rows[data->rows[i]];
    if (ui.selectable(fmt::format("row {}", data->rows[i]), "", static_cast<int>(data->rows[i]) == row_))
      row_ = static_cast<int>(data->rows[i]);
    ui.tooltip(row.find("error") ? row.text("error") : row.text("point"));
    x = 0;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      ImGui::SameLine(ui.unit(x) + 0.01f);  // 0 is the place behind the row
      std::string text = elide(tools_.metrics, cell_text(row, columns[c]), 13, Face::mono, wide[c]);
      ui.text(text, row.find("error") ? theme.dim : theme.text, Face::mono, 13);
      x += wide[c] + kGap;
    }
  });
  ImGui::EndChild();
}

void ExperimentsPanel::draw_axes(Ui& ui) {
  const Theme& theme = ui.theme();
  if (shows_ == Shows::figure) {
    std::vector<std::string> names;
    for (const report::Figure& figure : sweep_->figures) names.push_back(figure.name);
    ui.flow();
    ui.choose("figure", names, figure_, 220, "The figures that the experiment declares (Ctrl+Shift+3)");
    return;
  }
  auto axis = [&](const char* name, const std::vector<std::string>& choices, std::string& value, const char* tip) {
    int at = place_of(choices, value);
    ImGui::AlignTextToFramePadding();
    ui.text(name, theme.dim);
    ui.same_line(5);
    if (ui.choose(fmt::format("axis {}", name), choices, at, 176, tip)) value = choices[static_cast<std::size_t>(at)];
  };
  std::vector<std::string> groups;
  for (const char* column :
       {"model", "topology", "nodes", "devices", "strategy", "variant", "batch_per_gpu", "seq_len", "layers", "budget"})
    if (std::find(all_columns_.begin(), all_columns_.end(), column) != all_columns_.end()) groups.emplace_back(column);
  std::vector<std::string> panels = {""};
  panels.insert(panels.end(), groups.begin(), groups.end());
  axis("y", numbers_, plot_.y, "What is drawn");
  ui.flow(8, 181);
  axis("x", groups, plot_.x, "Along which");
  ui.flow(8, 181);
  axis("by", groups, plot_.series, "A line or colour for each of its values");
  axis("each", panels, plot_.panels, "A chart for each of its values");
  ui.flow();
  ui.checkbox("lines", "lines", plot_.lines, "Lines along numbers, else bars in groups");
  ui.flow();
  ui.checkbox("log x", "log x", plot_.log_x, "Logarithmic, of lines");
  ui.flow();
  ui.checkbox("log y", "log y", plot_.log_y, "Logarithmic");
}

void ExperimentsPanel::draw_page(Ui& ui) {
  const auto& data = data_.data();
  if (!data || data->sweep != sweep_ || (data->page.charts.empty() && data->page.note.empty())) return;
  if (!data->page.note.empty()) return ui.wrapped(data->page.note, ui.theme().dim);
  if (data_.version() != fitted_) {
    fitted_ = data_.version();
    canvas_.fit();
  }
  auto [width, height] = report::page_size(data->page.title, data->page.charts);
  ImVec2 room = ImGui::GetContentRegionAvail();
  canvas_.draw(ui, "experiment", {room.x, room.y}, {0, 0, static_cast<float>(width), static_cast<float>(height)},
               [&](Painter& painter) {
                 PainterSheet sheet(painter, ui.theme());
                 report::draw_page(sheet, data->page.title, data->page.charts);
               });
}

}  // namespace unity::gui
