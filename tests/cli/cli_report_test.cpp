// Searches that are interrupted, what they wrote down, and the figures of experiments.

#include <map>
#include <regex>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/child.h"
#include "tests/support/command.h"

namespace {

using namespace command;
using nlohmann::json;

// Goes on for many minutes: nearly all states of the whole graph are within this alpha.
std::vector<std::string> long_search(const Folder& f) {
  return {"search", "bert-tiny", "--topology", "summit", "--nodes",          "1", "--no-splitting", "--alpha",
          "1000",   "--budget",  "10000000",   "-o",     f.file("plan.json")};
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Four points of a sweep as it would have written them: throughputs 10, 30 on 2 devices and 20, 80 on 4.
std::string results() {
  json rows = json::array();
  auto row = [&](const char* variant, int devices, double throughput) {
    rows.push_back({{"point", std::string(variant) + std::to_string(devices)},
                    {"model", "mlp-tiny"},
                    {"topology", "laptop"},
                    {"nodes", 1},
                    {"devices", devices},
                    {"strategy", variant},
                    {"variant", variant},
                    {"samples_per_second", throughput}});
  };
  row("data-parallel", 2, 10), row("unity", 2, 30), row("data-parallel", 4, 20), row("unity", 4, 80);
  rows.push_back({{"point", "expert4"}, {"model", "mlp-tiny"}, {"variant", "expert"}, {"error", "does not apply"}});
  return json{{"format", "unity-results"}, {"version", 1}, {"rows", rows}}.dump();
}

std::string experiment(const std::string& figures) {
  return "format: unity-experiment\nversion: 1\nname: small\nmodels: [mlp-tiny]\ntopologies: [laptop]\n"
         "strategies: [data-parallel, unity]\nfigures:\n" +
         figures;
}

}  // namespace

TEST_CASE("Ctrl-C ends a search with the best so far, marked as such") {
  Folder f;
  Child child(f, long_search(f));
  REQUIRE(child.listens());
  REQUIRE(child.works(1));  // data parallelism is scored first, in milliseconds
  child.press();
  int status = child.wait();
  INFO(read(f.file("err")));
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(read(f.file("out")).find("stopped: interrupted\n") != std::string::npos);
  json search = json::parse(read(f.file("plan.json")))["search"];
  CHECK(search["stopped_because"] == "interrupted");
  CHECK(search["log"]["interrupted"] == true);
  CHECK(search["candidates"] >= 1);
  CHECK(unity("explain " + f.file("plan.json")).code == 0);
}

TEST_CASE("Ctrl-C ends a comparison with what it has, and begins no further search") {
  Folder f;
  std::vector<std::string> words = long_search(f);
  words[0] = "compare";
  words.insert(words.end(), {"--strategies", "data-parallel,unity,exhaustive"});
  Child child(f, words);
  REQUIRE(child.listens());
  REQUIRE(child.works(1));
  child.press();
  int status = child.wait();
  INFO(read(f.file("err")));
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  std::string out = read(f.file("out"));
  CHECK(out.find("strategy unity: stopped: interrupted, with the best so far") != std::string::npos);
  CHECK(out.find("strategy exhaustive: not searched: interrupted") != std::string::npos);
  CHECK(out.find("fastest: ") != std::string::npos);
  CHECK(unity("explain " + f.file("plan.json")).code == 0);
}

TEST_CASE("a second Ctrl-C ends a search at once") {
  Folder f;
  Child child(f, long_search(f));
  REQUIRE(child.listens());
  child.press();
  REQUIRE(child.says("Ctrl-C again ends at once"));
  child.press();
  int status = child.wait();
  // Unless the search has ended in between, with a plan or before it had one.
  CHECK((WIFSIGNALED(status) ? WTERMSIG(status) == SIGINT : WEXITSTATUS(status) <= 1));
}

TEST_CASE("search prints where candidates went, and report draws the log of its plan") {
  Folder f;
  std::string plan = f.file("p.json");
  Outcome search = unity("search bert-tiny --topology summit --nodes 1 --devices 4 -o " + plan);
  REQUIRE(search.code == 0);
  CHECK(search.out.find("left out unscored (") != std::string::npos);
  CHECK(search.out.find("parts: ") != std::string::npos);
  Outcome report = unity("report " + plan + " -o " + f.file("r"));
  REQUIRE(report.code == 0);
  CHECK(report.out.find("best so far") != std::string::npos);
  CHECK(report.out.find("rule of the plan") != std::string::npos);
  std::string svg = read(f.file("r/p.search.svg"));
  for (const char* words : {"candidates scored", "duplicate", "time by level", "simulation"})
    CHECK(svg.find(words) != std::string::npos);
  json summary = json::parse(unity("search bert-tiny --topology summit --nodes 1 --devices 4 --json").out);
  json log = json::parse(read(plan))["search"]["log"];
  CHECK(summary["search_log"]["left_out"] == log["left_out"]);
  CHECK(summary["search_log"]["best_so_far"] == log["best_so_far"]);
  check_refused("report " + plan + " " + plan + " -o " + f.file("r"), {"p.search.svg", "one by one"});
}

TEST_CASE("a figure divides by the best baseline at the same point and stands beside what is published") {
  Folder f;
  f.write("results.json", results());
  f.write("experiment.yaml",
          experiment("  - {name: ratio, x: devices, y: samples_per_second, only: {variant: [unity]}, over: "
                     "[data-parallel], published: {unity: {\"4\": [3, 3.5]}}}\n"
                     "  - {name: lines, kind: lines, x: devices, y: samples_per_second}\n"
                     "  - {name: most, x: model, y: samples_per_second, over: [data-parallel], take: max}\n"));
  Outcome report = unity("report " + f.file("results.json"));
  INFO(report.err);
  REQUIRE(report.code == 0);
  std::string text = read(f.file("report.md"));
  CHECK(text.find("| 2 | 3 | - |") != std::string::npos);         // 30 / 10
  CHECK(text.find("| 4 | 4 | 3 to 3.5 |") != std::string::npos);  // 80 / 20
  CHECK(text.find("| 4 | 20 | 80 | - |") != std::string::npos);
  CHECK(text.find("| mlp-tiny | 1 | 4 | - |") != std::string::npos);
  CHECK(text.find("* expert4: does not apply") != std::string::npos);
  // Bars of 3 and 4: heights in the same ratio. The published range goes up to 3.5.
  std::string svg = read(f.file("ratio.svg"));
  std::regex bar("height=\"([0-9.]+)\" fill=[^>]*><title>([^<]*)</title>");
  std::map<std::string, double> height;
  for (std::sregex_iterator it(svg.begin(), svg.end(), bar), end; it != end; ++it)
    height[(*it)[2]] = std::stod((*it)[1]);
  REQUIRE(height.size() == 3);
  CHECK(height.at("unity, 2: 3") / height.at("unity, 4: 4") == Approx(0.75).epsilon(0.01));
  CHECK(height.at("unity (paper), 4: 3 to 3.5") / height.at("unity, 4: 4") == Approx(0.875).epsilon(0.01));
  CHECK(count(read(f.file("lines.svg")), "<polyline") == 2);
}

TEST_CASE("a sweep runs variants of a strategy, a part of its grid at a time, and report draws what is there") {
  Folder f;
  std::string file = f.write(
      "e.yaml",
      "format: unity-experiment\nversion: 1\nname: variants\nmodels: [mlp-mnist]\ntopologies: [summit]\nnodes: [1]\n"
      "devices: [1, 2]\nvariants:\n  - {name: all}\n  - {name: no rules, without: [algebra, dp], budget: 20}\n"
      "figures:\n  - {name: time, x: devices, y: search_seconds}\n");
  REQUIRE(unity("sweep " + file + " -o " + f.file("r") + " --only devices=2").code == 0);
  const std::string open = "2 of 4 points of the grid have no row yet";
  CHECK(unity("report " + f.file("r/results.json")).out.find(open) != std::string::npos);
  REQUIRE(unity("report " + f.file("r/results.json") + " --html").code == 0);
  CHECK(read(f.file("r/report.html")).find(open) != std::string::npos);
  REQUIRE(unity("sweep " + file + " -o " + f.file("r") + " --resume").code == 0);
  json rows = json::parse(read(f.file("r/results.json")))["rows"];
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["devices"] == 1);  // in the order of the grid
  CHECK(rows[1]["variant"] == "no rules");
  CHECK(rows[1]["strategy"] == "unity");
  CHECK(rows[1]["candidates"] <= 22);  // data parallelism is scored beside the budget
  CHECK(rows[1]["point"].get<std::string>().find("without=algebra,dp") != std::string::npos);
  const std::string report = unity("report " + f.file("r/results.json")).out;
  CHECK(report.find("| devices | all | no rules |") != std::string::npos);
  CHECK(report.find("of the grid") == std::string::npos);
  check_refused("sweep " + file + " -o " + f.file("s") + " --only device=2", {"--only", "device=2"});
  check_refused("sweep " + file + " -o " + f.file("s") + " --only devices=7", {"--only", "devices=7"});
}

TEST_CASE("what can not be reported is refused with place and reason") {
  Folder f;
  std::string results_file = f.write("results.json", results());
  check_refused("report " + results_file, {"experiment.yaml", "--experiment"});
  auto refused = [&](const std::string& figures, const std::vector<std::string>& said) {
    check_refused("report " + results_file + " --experiment " + f.write("e.yaml", experiment(figures)), said);
  };
  refused("  - {name: a, x: devices, y: speed}\n", {"e.yaml:8", "speed"});
  refused("  - {name: a, x: devices}\n", {"e.yaml:8", "'y' is missing"});
  refused("  - {name: a, kind: lines, x: model, y: candidates}\n", {"e.yaml:8", "numbers"});
  refused("  - {name: a, x: devices, y: candidates, over: [unty]}\n", {"e.yaml:8", "unty", "unity"});
  refused("  - {name: a, x: devices, y: candidates, published: {unity: {\"4\": [2, 1]}}}\n", {"e.yaml:8", "smaller"});
  refused("  - {name: a/b, x: devices, y: candidates}\n", {"e.yaml:8", "a/b"});
  check_refused("report " + f.write("x.json", "{}"), {"x.json", "format"});
  check_refused("report " + f.file("none.json"), {"none.json"});
  const std::string cut = f.write("cut.json", results().substr(0, results().size() / 2));
  check_refused("report " + cut, {"cut.json:", "not a complete JSON document (byte ", "is the file truncated?"});
  for (const std::string& other : {f.file("e.yaml"), f.write("results.csv", "point,model\n1,mlp\n")})
    check_refused("report " + other, {other + ": found no JSON object, expected a plan or the results of a sweep"});
}
