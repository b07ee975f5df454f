// Experiment and result files that are refused.
#include <filesystem>

#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/report/experiment.h"
#include "core/report/results.h"

namespace unity::report {
namespace {

using Catch::Contains;

const std::string kHead = "format: unity-experiment\nversion: 1\nmodels: [mlp]\ntopologies: [summit]\n";

std::string error_of(const std::string& text) {
  std::string file = (std::filesystem::temp_directory_path() / "experiment.yaml").string();
  write_file_atomically(file, text);
  try {
    load_experiment(file);
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

TEST_CASE("figures are drawn into the folder of the results") {
  const std::string figure = "figures:\n  - {name: NAME, x: nodes, y: iteration_seconds}\n";
  auto named = [&](const std::string& name) {
    return error_of(kHead + std::string(figure).replace(figure.find("NAME"), 4, name));
  };
  CHECK(named("fig-1").empty());
  for (const char* name : {"../fig", "/tmp/fig", "a/b"}) CHECK_THAT(named(name), Contains("expected a file's name"));
}

TEST_CASE("results that are nested deep are refused") {
  CHECK_THROWS_WITH(results_from_json("{\"rows\": " + std::string(100'000, '['), "r.json"),
                    Contains("r.json:1: found lists and objects nested deeper than 100"));
}

}  // namespace
}  // namespace unity::report
