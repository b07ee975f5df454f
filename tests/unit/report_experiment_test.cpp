// Experiment and result files that are refused.
#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/report/experiment.h"
#include "core/report/figures.h"
#include "core/report/results.h"

namespace unity::report {
namespace {

using Catch::Contains;

const std::string kHead = "format: unity-experiment\nversion: 1\nmodels: [mlp]\ntopologies: [summit]\n";

std::string error_of(const std::string& text, bool to_run = false) {
  std::string file = (std::filesystem::temp_directory_path() / "experiment.yaml").string();
  write_file_atomically(file, text);
  try {
    load_experiment(file, to_run);
  } catch (const InputError& e) {
    std::string message = e.what();
    return message.substr(message.find(".yaml:") + 5);
  }
  return {};
}

std::string numbers(int count) {
  std::string text = "[1";
  for (int i = 2; i <= count; ++i) text += fmt::format(", {}", i);
  return text + "]";
}

TEST_CASE("the points of an experiment are counted before they are made") {
  CHECK(error_of(kHead + "nodes: " + numbers(100) + "\n").empty());
  CHECK_THAT(error_of(kHead + fmt::format("nodes: {0}\ndevices: {0}\nlayers: {0}\nbudget: {0}\n", numbers(100))),
             Contains(":7:9: layers: with it there are more than 1000000 points") || Contains(":8:9: budget: with it"));
}

TEST_CASE("a variant has a schedule of its own") {
  const std::string variant = "variants:\n  - {name: joined, strategy: data-parallel, KEY}\n";
  auto with = [&](const std::string& key) { return kHead + std::string(variant).replace(variant.find("KEY"), 3, key); };
  std::string file = (std::filesystem::temp_directory_path() / "variant.yaml").string();
  write_file_atomically(file, with("bucket: 25 MB, overlap: 1, schedule: 1f1b, offload: [activations, optimizer]"));
  const Variant joined = load_experiment(file).grid.at(0).variant;
  Schedule schedule;
  joined.settings.schedule.apply(schedule);
  CHECK(schedule.bucket == Bytes{25'000'000});
  CHECK(schedule.overlap == 1);
  CHECK(schedule.order == PipelineOrder::one_f_one_b);
  CHECK(schedule.offload == Offload::activations_and_optimizer);
  CHECK_THAT(joined.text, Contains("bucket=25 MB"));

  CHECK_THAT(error_of(with("bucket: plenty")), Contains(":6:53: bucket: --bucket: size: found 'plenty'"));
  CHECK_THAT(error_of(with("overlap: -1")), Contains("overlap: --overlap: found '-1'"));
  CHECK_THAT(error_of(with("schedule: 1f2b")), Contains("schedule: "));
  CHECK_THAT(error_of(with("buckets: 1")), Contains("unknown key 'buckets'") && Contains("bucket"));
}

TEST_CASE("a variant's numbers are in their ranges") {
  auto with = [](const std::string& key) { return error_of(kHead + "variants:\n  - {name: one, " + key + "}\n"); };
  CHECK(with("alpha: 1, time-limit: 0, memory-limit: 12 GB").empty());
  CHECK(with("alpha: 0.2") == ":6:24: alpha: found 0.2, expected at least 1");
  CHECK(with("time-limit: -1") == ":6:29: time-limit: found -1, expected at least 0 s");
  CHECK_THAT(with("memory-limit: much"), Contains(":6:31: memory-limit: size: found 'much'"));
  CHECK(with("stages: [2], strategy: [unity]").empty());
  CHECK(with("stages: [2, 4]") == ":6:25: stages: found a list of 2, expected one value");
  CHECK(with("strategy: [unity, expert, random]") == ":6:27: strategy: found a list of 3, expected one value");
}

TEST_CASE("what is run has its files of mappings, and machines with so many devices") {
  auto to_run = [](const std::string& text) { return error_of(text, true); };
  const std::string mappings = kHead + "variants:\n  - {name: one, mappings: none.yaml}\n";
  CHECK(error_of(mappings).empty());
  CHECK_THAT(to_run(mappings), Contains(":6:27: mappings: none.yaml: cannot be read"));
  // Summit has 6 devices in each node.
  CHECK(to_run(kHead + "nodes: [1, 2]\ndevices: [1, 12]\n").empty());
  CHECK_THAT(to_run(kHead + "nodes: [1, 2]\ndevices: [1, 13]\n"),
             Contains(":6:14: devices: ") && Contains("13 devices asked for, expected 1 to 12"));
  CHECK(error_of(kHead + "devices: 99\n").empty());
}

TEST_CASE("a variant's kinds of parallelism are known ones, and what is published is of a variant") {
  const std::string kinds = kHead + "variants:\n  - {name: one, parallelism: [data, modle]}\n";
  CHECK_THAT(error_of(kinds), Contains("parallelism: 'modle' is not known") && Contains("model"));
  const std::string published = kHead +
                                "variants:\n  - {name: one}\nfigures:\n  - {name: f, x: model, y: "
                                "iteration_seconds, published: {two: {mlp: 1}}}\n";
  CHECK_THAT(error_of(published), Contains("published: 'two' is not known"));
}

TEST_CASE("figures are drawn into the folder of the results") {
  const std::string figure = "figures:\n  - {name: NAME, x: nodes, y: iteration_seconds}\n";
  auto named = [&](const std::string& name) {
    return error_of(kHead + std::string(figure).replace(figure.find("NAME"), 4, name));
  };
  CHECK(named("fig-1").empty());
  for (const char* name : {"../fig", "/tmp/fig", "a/b"}) CHECK_THAT(named(name), Contains("expected a file's name"));
}

TEST_CASE("columns and values of figures are of the grid, or are refused") {
  const std::string figure = "layers: [1, 2]\nfigures:\n  - {name: f, x: nodes, y: iteration_seconds, KEY}\n";
  auto with = [&](const std::string& key) {
    return error_of(kHead + std::string(figure).replace(figure.find("KEY"), 3, key));
  };
  CHECK(with("series: layers, panels: global_batch, only: {model: mlp, layers: 2, nodes: 7}").empty());
  CHECK(with("series: seq_len") ==
        ":7:55: series: found 'seq_len', which no point has, as the experiment has no 'seq-len'");
  CHECK_THAT(with("panels: batch_per_gpu"),
             Contains("panels: found 'batch_per_gpu'") && Contains("no 'batch-per-gpu'"));
  CHECK_THAT(with("only: {budget: 5}"), Contains("budget: found 'budget', which no point has"));
  CHECK_THAT(with("only: {model: mpl}"), Contains("model: 'mpl' is not known (known: mlp)"));
  CHECK_THAT(with("only: {strategy: [unity, expert]}"), Contains("strategy: 'expert' is not known"));
  CHECK(with("log: y").empty());
  CHECK_THAT(with("log: [x, y]"), Contains("log: found x, expected y: bars stand side by side"));
}

TEST_CASE("batches of their own are points of their own, also of figures") {
  auto at = [](const char* variant, const char* batch, const char* seconds) {
    return ResultRow{{{"model", "m"}, {"variant", variant}, {"global_batch", batch}, {"iteration_seconds", seconds}}};
  };
  Figure ratio;
  ratio.x = "global_batch", ratio.y = "iteration_seconds", ratio.over = {"base"};
  FigureValues values = figure_values(
      ratio, {at("base", "64", "2"), at("all", "64", "1"), at("base", "128", "8"), at("all", "128", "2")});
  REQUIRE(values.xs == std::vector<std::string>{"64", "128"});
  REQUIRE(values.series == std::vector<std::string>{"base", "all"});
  CHECK(values.cells[0][0][0].ours == 1);
  CHECK(values.cells[0][0][1].ours == 0.5);  // 1 / 2
  CHECK(values.cells[0][1][0].ours == 1);
  CHECK(values.cells[0][1][1].ours == 0.25);  // 2 / 8
}

TEST_CASE("a CSV file has the columns of the grid, and fields with line ends in quotes") {
  const std::vector<std::string>& columns = result_columns();
  for (const char* column : {"batch_per_gpu", "global_batch", "seq_len", "layers", "budget"})
    CHECK(std::find(columns.begin(), columns.end(), column) != columns.end());
  CHECK(to_csv({"a", "b"}, {{{{"a", "x\ry"}, {"b", "\"1\", 2"}}}}) == "a,b\n\"x\ry\",\"\"\"1\"\", 2\"\n");
}

TEST_CASE("results that are nested deep are refused") {
  CHECK_THROWS_WITH(results_from_json("{\"rows\": " + std::string(100'000, '['), "r.json"),
                    Contains("r.json:1: found lists and objects nested deeper than 100"));
}

}  // namespace
}  // namespace unity::report
