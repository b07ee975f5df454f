// What two results have in common, and reports as HTML.
#include <algorithm>
#include <filesystem>
#include <functional>

#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/base/xml.h"
#include "core/machine/collectives.h"
#include "core/report/comparison.h"
#include "core/report/html_report.h"
#include "core/report/provenance.h"
#include "core/report/search_charts.h"
#include "tests/support/well_formed.h"

namespace unity::report {
namespace {

using Catch::Contains;
using Cells = std::vector<std::pair<std::string, std::string>>;

ResultRow row(const std::string& point, Cells cells) {
  cells.insert(cells.begin(), {"point", point});
  return {std::move(cells)};
}

ResultRow timed(const std::string& point, const std::string& seconds) {
  return row(point, {{"iteration_seconds", seconds}, {"search_seconds", "10"}, {"stopped_because", "one plan"}});
}

Results of(std::vector<ResultRow> rows) { return {"e.yaml", {}, {}, {}, std::move(rows)}; }

Change change(const ResultRow& before, const ResultRow& now, const ComparisonOptions& options = {}) {
  Results a = of({before}), b = of({now});
  return compare(a, b, options).points.at(0).change;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

TEST_CASE("the curve of a search is drawn by factors where it begins far above its end") {
  auto curve = [](std::vector<std::int64_t> milliseconds) {
    SearchState state;
    for (std::int64_t ms : milliseconds) {
      state.log.best_so_far.push_back({static_cast<std::int64_t>(state.log.best_so_far.size()), {ms * 1'000'000'000}});
      state.log.seconds.best_so_far.push_back(0);
    }
    return best_so_far_chart(state, false);
  };
  CHECK(curve({70611, 2127, 752}).log_y);
  CHECK_FALSE(curve({900, 768, 752}).log_y);
  CHECK_FALSE(curve({}).log_y);
}

TEST_CASE("a predicted time that is longer is a regression, beyond the tolerance") {
  CHECK(change(timed("p", "1"), timed("p", "1")) == Change::same);
  CHECK(change(timed("p", "1"), timed("p", "1.00001")) == Change::slower);
  CHECK(change(timed("p", "1"), timed("p", "0.9")) == Change::faster);
  CHECK(change(timed("p", "1"), timed("p", "1.01"), {.tolerance = 0.02}) == Change::same);
  CHECK(change(timed("p", "1"), timed("p", "1.03"), {.tolerance = 0.02}) == Change::slower);
  CHECK(is_regression(Change::slower));
  CHECK_FALSE(is_regression(Change::faster));
}

TEST_CASE("searches are judged by their seconds only when asked to") {
  ResultRow slow = row("p", {{"iteration_seconds", "1"}, {"search_seconds", "16"}});
  CHECK(change(timed("p", "1"), slow) == Change::same);
  CHECK(change(timed("p", "1"), slow, {.search_tolerance = 0.5}) == Change::slow_search);
  CHECK(change(timed("p", "1"), slow, {.search_tolerance = 0.7}) == Change::same);
}

TEST_CASE("what a search found that stopped for time is no regression") {
  ResultRow stopped = row("p", {{"iteration_seconds", "2"}, {"stopped_because", "time limit of 3 s"}});
  CHECK(change(timed("p", "1"), stopped) == Change::other_time);
  CHECK(change(stopped, timed("p", "3")) == Change::other_time);
  CHECK_FALSE(is_regression(Change::other_time));
}

TEST_CASE("plans that are lost and points that are missing are regressions, new ones are not") {
  ResultRow failed = row("p", {{"error", "does not fit"}}), otherwise = row("p", {{"error", "does not apply"}});
  CHECK(change(timed("p", "1"), failed) == Change::lost);
  CHECK(change(failed, timed("p", "1")) == Change::found);
  CHECK(change(failed, failed) == Change::same);
  CHECK(change(failed, otherwise) == Change::plan);
  Results before = of({timed("a", "1"), timed("b", "1")}), now = of({timed("b", "1"), timed("c", "1")});
  Comparison c = compare(before, now);
  REQUIRE(c.points.size() == 3);
  CHECK(c.points[0].change == Change::same);
  CHECK(c.points[1].change == Change::added);
  CHECK(c.points[2].change == Change::missing);
  CHECK(c.regressions() == 1);
  CHECK(verdict(c) == "1 regression: 3 points, 1 missing, 1 new, 1 the same");
  CHECK(verdict(compare(before, before)) == "no regression: 2 points, 2 the same");
}

TEST_CASE("another plan that is as fast, and other memory, are told") {
  auto with = [](const char* hash, const char* bytes) {
    return row("p", {{"iteration_seconds", "0.001"}, {"peak_memory_bytes", bytes}, {"plan_hash", hash}});
  };
  CHECK(change(with("aa", "100"), with("aa", "100")) == Change::same);
  CHECK(change(with("aa", "100"), with("bb", "100")) == Change::plan);
  CHECK(change(with("aa", "100"), with("aa", "200")) == Change::plan);
  Results before = of({with("aaaaaaaaaaaa", "100")}), now = of({with("bbbbbbbbbbbb", "200")});
  TextTable table = changes_table(compare(before, now));
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0][3].text == "100 B to 200 B (+100.00%)");
  CHECK(table.rows[0][5].text == "aaaaaaaa to bbbbbbbb");
}

TEST_CASE("differences of provenance are named, with how many points have them") {
  auto from = [](const char* point, const char* topology, const char* seed) {
    return row(point, {{"iteration_seconds", "1"}, {"topology_hash", topology}, {"seed", seed}, {"host", topology}});
  };
  Results before = of({from("a", "11", "1"), from("b", "11", "1")}),
          now = of({from("a", "22", "1"), from("b", "11", "1")});
  CHECK(provenance_lines(compare(before, now)) ==
        std::vector<std::string>{"topology_hash differs in 1 of 2 points: 11 before, 22 now"});
  Results older = of({timed("a", "1"), timed("b", "1")});
  CHECK(provenance_lines(compare(older, now)).front() ==
        "topology_hash differs in 2 of 2 points: not written down before, 22 now");
}

TEST_CASE("a tolerance is a share, in percent or not") {
  CHECK(parse_tolerance("--tolerance", "1%") == Approx(0.01));
  CHECK(parse_tolerance("--tolerance", "0.01") == Approx(0.01));
  CHECK(parse_tolerance("--tolerance", "0") == 0);
  for (const char* text : {"", "x", "-1%", "1 %", "1%%", "nan", "inf", "%"})
    CHECK_THAT(error_of([&] { parse_tolerance("--tolerance", text); }),
               Contains("expected a share such as 1% or 0.01"));
}

TEST_CASE("a page of names that try to be markup is well-formed, and has them as they are") {
  const std::string name = "<script>alert(\"1\")</script>&amp;]]>\x01\xff\xc3\xa9|\n";
  CHECK(xml_escaped("a\x01\xff\xc3\xa9\xed\xa0\x80z") == "a\xc3\xa9z");  // control, no UTF-8, e acute, surrogate
  ResultsReport report;
  report.file = "r/results.json";
  report.results = of({row(name, {{"model", name},
                                  {"devices", "2"},
                                  {"variant", name},
                                  {"iteration_seconds", "0.5"},
                                  {"plan", "../../../etc/passwd"},
                                  {"host", name}}),
                       row("other", {{"model", "m"}, {"devices", "4"}, {"variant", name}, {"error", name}})});
  report.results.experiment = name;
  Figure figure;
  figure.name = "f", figure.title = name, figure.x = "devices", figure.y = "iteration_seconds";
  figure.panels = "model", figure.source = name;
  report.experiment = Experiment{name, {}, {figure}};
  report.note = name;
  Comparison comparison = compare(of({}), report.results);
  std::string page = html_page(
      name, {results_section(report), comparison_section(comparison, name, name), text_section(name, name, {})});
  CHECK(markup::why_not_well_formed(page) == "");
  CHECK(page.find("<script") == page.npos);
  CHECK(page.find("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;]]&gt;\xc3\xa9") != page.npos);
  CHECK(page.find("passwd") == page.npos);
  CHECK(page.find("<svg") != page.npos);
}

TEST_CASE("a page needs nothing but itself, and repeats") {
  ResultsReport report;
  report.file = "results.json";
  report.results = of({row("p", {{"model", "m"}, {"iteration_seconds", "0.5"}, {"variant", "unity"}})});
  std::string page = html_page("t", {results_section(report)});
  for (const char* outside : {"http:", "https:", "src=", "@import", "<script", "url("}) {
    std::string rest = page;  // but for the names of vocabularies
    for (std::size_t at; (at = rest.find("http://www.w3.org/")) != rest.npos;) rest.erase(at, 18);
    INFO(outside);
    CHECK(rest.find(outside) == rest.npos);
  }
  CHECK(html_page("t", {results_section(report)}) == page);
}

TEST_CASE("what is not well-formed is found to be so") {
  for (const char* wrong : {"", "<a>", "<a></b>", "<a/><b/>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a>&nbsp;</a>",
                            "<a>&</a>", "<a x=\"<\"/>", "text", "<a><br></a>", "<a>\x01</a>"})
    CHECK(markup::why_not_well_formed(wrong) != "");
  CHECK(markup::why_not_well_formed("<!DOCTYPE html>\n<a x=\"&lt;\"><b/>t</a>\n") == "");
}

// What is written beside the axes and bars of a chart.
std::vector<std::string> labels(const Chart& chart) {
  const std::string svg = draw_charts("", {chart});
  std::vector<std::string> found;
  for (std::size_t at = svg.find("<text"); at != std::string::npos; at = svg.find("<text", at + 1)) {
    std::size_t begin = svg.find('>', at) + 1;
    found.push_back(svg.substr(begin, svg.find('<', begin) - begin));
  }
  return found;
}

bool has(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

TEST_CASE("axes have numbers that differ, whatever is on them") {
  auto line = [](std::vector<double> xs, std::vector<double> ys, bool log_y, bool close = false) {
    Chart chart{.log_y = log_y, .close = close};
    chart.series.push_back({"s", 0, false, {}});
    for (std::size_t i = 0; i < xs.size(); ++i) chart.series[0].points.push_back({xs[i], ys[i], ys[i]});
    return labels(chart);
  };
  const std::vector<std::string> decade = line({1, 2}, {3, 3.4}, true);  // no 1, 2 or 5 times a power of ten
  for (const char* tick : {"2.5", "3", "3.5", "4"}) CHECK(has(decade, tick));
  const std::vector<std::string> near = line({1, 2}, {386.1, 386.9}, false, true);
  for (const char* tick : {"386.2", "386.4", "386.6", "386.8"}) CHECK(has(near, tick));
  const std::vector<std::string> far = line({1, 2}, {1e-3, 1e20}, true);
  CHECK(far.size() < 20);
  CHECK(has(far, "0.1"));  // every third power of ten
  const std::vector<std::string> lengths = line({512, 16384, 131072}, {1, 2, 3}, false);
  for (const char* tick : {"16384", "131072"}) CHECK(has(lengths, tick));
  // Nor do numbers at the ends of what there is keep it from ending.
  for (bool log : {false, true})
    for (double v : {5e-324, 1e-310, 1e308, 1.79e308, 0.0, -1.0}) CHECK(line({1, 2}, {1, v}, log).size() < 30);
}

TEST_CASE("short numbers are rounded before they get their unit") {
  CHECK(short_number(999.4) == "999");
  CHECK(short_number(999.7) == "1000");
  CHECK(short_number(9996) == "9996");
  CHECK(short_number(9999.7) == "10k");
  CHECK(short_number(12345) == "12.3k");
  CHECK(short_number(999'700) == "1M");
  CHECK(short_number(999'700'000) == "1G");
  CHECK(short_number(-0.01234) == "-0.0123");
  CHECK(short_number(0) == "0");
}

TEST_CASE("seeds are told from the least to the most") {
  std::vector<ResultRow> rows;
  for (const char* seed : {"10", "9", "2", "7"}) rows.push_back(row(seed, {{"seed", seed}}));
  CHECK(provenance_summary(rows).at(0).second == "4 values, 2 to 10");
  rows.pop_back();
  CHECK(provenance_summary(rows).at(0).second == "2, 9, 10");
}

TEST_CASE("the fastest plan of each place stands beside the next") {
  ResultsReport report;
  auto at = [](const char* variant, const char* devices, const char* seconds) {
    return row(std::string(variant) + devices,
               {{"model", "m"}, {"devices", devices}, {"variant", variant}, {"iteration_seconds", seconds}});
  };
  report.results = of({at("a", "2", "0.3"), at("b", "2", "0.2"), at("a", "4", "0.1")});
  TextTable best = best_plans_table(report);
  REQUIRE(best.rows.size() == 2);
  CHECK(best.rows[0][0].text == "m, 2 devices");
  CHECK(best.rows[0][1].text == "b");
  CHECK(best.rows[0][6].text == "a");
  CHECK(best.rows[0][7].text == "50.0%");  // 0.3 / 0.2
  CHECK(best.rows[1][6].text == "-");
  for (std::size_t i = 0; i < 3; ++i)
    report.results.rows[i].cells.emplace_back("global_batch", i == 0 ? "64" : "128");  // a alone has 64
  best = best_plans_table(report);
  REQUIRE(best.rows.size() == 3);
  CHECK(best.rows[0][0].text == "m, 2 devices, global batch 64");
  CHECK(best.rows[0][1].text == "a");
  CHECK(best.rows[0][6].text == "-");
}

TEST_CASE("numbers of a column are told in its unit, also such as no sweep has") {
  CHECK(value_text("iteration_seconds", 0.0125) == "12.5 ms");
  CHECK(value_text("search_seconds", 0.0125) == "0.0125 s");
  CHECK(value_text("peak_memory_bytes", 1.2e9) == "1.2 GB");
  CHECK(value_text("gap", 0.184) == "18.4%");
  CHECK(value_text("iteration_seconds", 1e300) == "1e+300 s");  // more picoseconds than can be counted
  CHECK(value_text("peak_memory_bytes", 1e300) == "1e+300");
}

TEST_CASE("cells of a table stay in their place, and links are encoded") {
  TextTable table{{"a|b", "n"}, {{"x|\ny", TextCell("p", "plans/a b\".json")}}, 1};
  CHECK(to_markdown(table) == "| a\\|b | n |\n|---|---:|\n| x\\| y | [p](plans/a%20b%22.json) |\n");
  CHECK(to_html(table).find("href=\"plans/a%20b%22.json\"") != std::string::npos);
  CHECK(in_markdown("a <b>\n|") == "a \\<b> \\|");
}

TEST_CASE("the hash of a machine is of all that predictions depend on") {
  Topology plain = load_topology("dgx-a100", {1, 4});
  const Hash before = machine_hash(plain);
  CHECK(before == machine_hash(load_topology("dgx-a100", {1, 4})));
  std::vector<std::function<void(Topology&)>> changes = {
      [](Topology& t) { t.specs[0].host_bandwidth.rate += 1; }, [](Topology& t) { t.specs[0].memory.count += 1; },
      [](Topology& t) { t.links[0].bandwidth.rate += 1; },
      [](Topology& t) { t.vertices[0].host = !t.vertices[0].host; },
      [](Topology& t) {
        auto other = t.collectives ? *t.collectives : CollectiveLibrary{};
        other.channels += 1;
        t.collectives = std::make_shared<CollectiveLibrary>(other);
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    INFO(i);
    Topology changed = plain;
    changes[i](changed);
    CHECK(machine_hash(changed) != before);
  }
}

TEST_CASE("settings are told when they are not the usual ones, budget and alpha always") {
  SearchSettings settings;
  CHECK(settings_text(settings) == "budget=4000 alpha=1.05");
  settings.search.budget = 20, settings.search.jobs = 7, settings.search.seed = 3;
  settings.search.algebra = false, settings.memory_limit = "9 GB", settings.schedule.order = "1f1b";
  CHECK(settings_text(settings) == "budget=20 alpha=1.05 memory-limit=9 GB no-algebra schedule=1f1b");
}

}  // namespace
}  // namespace unity::report
