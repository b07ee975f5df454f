// Results of sweeps: reading, table, plots.
#include <catch2/catch.hpp>

#include "gui/panels/experiments/view.h"
#include "gui/session/session.h"
#include "tests/gui/support.h"

using namespace unity;
using namespace unity::gui;

namespace {

const char* kResults = R"({"format": "unity-results", "version": 1, "experiment": "e.yaml", "rows": [
  {"point": "a", "model": "bert", "devices": 2, "variant": "unity", "samples_per_second": 30.5, "iteration_seconds": 0.001,
   "stopped_because": "one, \"plan\""},
  {"point": "b", "model": "bert", "devices": 10, "variant": "unity", "samples_per_second": 80, "iteration_seconds": 0.5},
  {"point": "c", "model": "bert", "devices": 10, "variant": "expert", "samples_per_second": 9, "plan": null},
  {"point": "d", "model": "bert", "devices": 4, "variant": "expert", "error": "does not apply"}]})";

report::Results results() { return report::results_from_json(kResults, "results.json"); }

}  // namespace

TEST_CASE("rows of a sweep are sorted by number and filtered by column") {
  report::Results r = results();
  CHECK(table_rows(r, {}) == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(table_rows(r, {.sort = "devices"}) == std::vector<std::size_t>{0, 3, 1, 2});
  // What has no such cell stands at the end, either way.
  CHECK(table_rows(r, {.sort = "samples_per_second"}) == std::vector<std::size_t>{2, 0, 1, 3});
  CHECK(table_rows(r, {.sort = "samples_per_second", .descending = true}) == std::vector<std::size_t>{1, 0, 2, 3});
  CHECK(table_rows(r, {.filter = "devices>3 expert"}) == std::vector<std::size_t>{2, 3});
  CHECK(table_rows(r, {.filter = "variant=unity devices<3"}) == std::vector<std::size_t>{0});
  CHECK(table_rows(r, {.filter = "nothing"}).empty());
}

TEST_CASE("columns that say nothing are not shown, cells have units") {
  report::Results r = results();
  CHECK(telling_columns(r) ==
        std::vector<std::string>{"devices", "variant", "iteration_seconds", "samples_per_second"});
  CHECK(number_columns(r) == std::vector<std::string>{"devices", "iteration_seconds", "samples_per_second"});
  CHECK(cell_text(r.rows[0], "iteration_seconds") == "1 ms");
  CHECK(cell_text(r.rows[3], "iteration_seconds") == "no plan");
  CHECK(cell_text(r.rows[1], "devices") == "10");
  CHECK(cell_text(r.rows[3], "samples_per_second") == "-");
}

TEST_CASE("CSV quotes what has commas and quotes") {
  report::Results r = results();
  CHECK(report::to_csv({"point", "stopped_because"}, {r.rows[0], r.rows[1]}) ==
        "point,stopped_because\na,\"one, \"\"plan\"\"\"\nb,\n");
}

TEST_CASE("a plot has a line for each value of a column, along numbers") {
  report::Results r = results();
  PlotOptions plot = first_plot(r);
  CHECK(plot.x == "devices");
  CHECK(plot.y == "samples_per_second");
  ChartPage page = chart_page(figure_of(plot, r), r);
  REQUIRE(page.charts.size() == 1);
  REQUIRE(page.charts[0].series.size() == 2);
  CHECK(page.charts[0].series[0].name == "unity");
  CHECK(page.charts[0].series[0].points[1].x == 10);
  CHECK(page.charts[0].series[0].points[1].y == 80);
  plot.x = "variant";  // no numbers: bars, though lines were asked for
  CHECK(chart_page(figure_of(plot, r), r).charts[0].kind == report::Chart::Kind::bars);
  plot.y = "search_seconds";
  CHECK(chart_page(figure_of(plot, r), r).note.find("nothing to be drawn") != std::string::npos);
}

TEST_CASE("a broken, foreign or newer result of a sweep says what is wrong") {
  auto why = [](const std::string& text) {
    try {
      report::results_from_json(text, "r.json");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("fine");
  };
  std::string text = kResults;
  CHECK(why(text) == "fine");
  for (std::size_t cut = 0; cut + 1 < text.size(); cut += 7)
    CHECK(why(text.substr(0, cut)).ends_with("is the file truncated?"));
  CHECK(why("{\"format\": \"unity-plan\"}") == "r.json: is not the result of a sweep");
  CHECK(why("{\"format\": \"unity-results\", \"version\": 7, \"rows\": []}") ==
        "r.json: found version 7, expected at most 1: a newer unity wrote it");
  CHECK(why("{\"format\": \"unity-results\", \"rows\": [3]}").starts_with("r.json: is not"));
  CHECK(why("[]").starts_with("r.json: is not"));
}

TEST_CASE("a folder of a sweep opens with the figures of its experiment, or says why there are none") {
  namespace fs = std::filesystem;
  fs::path folder = fs::temp_directory_path() / fmt::format("unity-gui-sweep-{}", getpid());
  fs::create_directories(folder);
  write_file_atomically(folder / "results.json", kResults);
  Snapshot alone = open_document({.source = folder.string()});
  REQUIRE(alone->sweep);
  CHECK(alone->sweep->results.rows.size() == 4);
  CHECK(alone->sweep->note.find("no experiment.yaml") != std::string::npos);
  write_file_atomically(folder / "experiment.yaml",
                        "format: unity-experiment\nversion: 1\nname: small\nmodels: [mlp-tiny]\ntopologies: [laptop]\n"
                        "strategies: [unity, expert]\nfigures:\n"
                        "  - {name: speed, x: devices, y: samples_per_second, published: {unity: {10: 70}}}\n");
  Snapshot whole = open_document({.source = (folder / "results.json").string()});
  CHECK(whole->title == "small");
  REQUIRE(whole->sweep->figures.size() == 1);
  ChartPage page = chart_page(whole->sweep->figures[0], whole->sweep->results);
  REQUIRE(page.charts.size() == 1);
  // Theirs stand beside ours, as outlines.
  CHECK(std::any_of(page.charts[0].series.begin(), page.charts[0].series.end(),
                    [](const report::ChartSeries& s) { return s.outside && s.name == "unity (paper)"; }));
  fs::remove_all(folder);
}
