// unity bench search: its figures belong to the search that `unity search` makes.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace {

using nlohmann::json;
using namespace command;

}  // namespace

TEST_CASE("bench search times the search of each model on each machine, level by level") {
  Outcome o = unity("bench search --models mlp-tiny --nodes 2,1 --budget 50 --json");
  REQUIRE(o.code == 0);
  json figures = json::parse(o.out);
  for (int nodes : {1, 2}) {
    std::string name = "mlp_tiny_" + std::to_string(6 * nodes) + "_";  // six GPUs in a node
    json search = json::parse(
        unity("search mlp-tiny --topology summit --nodes " + std::to_string(nodes) + " --budget 50 --json").out);
    CHECK(figures[name + "candidates"] == search["candidates"]);
    CHECK(figures[name + "iteration_seconds"] == search["iteration_seconds"]);
    double candidates = figures[name + "candidates"], sum = 0;
    for (const char* level : {"split", "substitution", "mapping", "lowering", "simulation"})
      sum += figures[name + level + "_ms_per_candidate"].get<double>() / 1e3 * candidates;
    CHECK(sum == Approx(figures[name + "processor_seconds"].get<double>()));
    CHECK(figures[name + "candidates_per_second"].get<double>() * figures[name + "search_seconds"].get<double>() ==
          Approx(candidates));
  }
  CHECK(figures["peak_memory_bytes"] > 1'000'000);  // the executable alone has more
}

TEST_CASE("options of one bench are refused for another") {
  check_refused("bench rules --models mlp", {"--models", "bench search"});
  check_refused("bench search --large --models mlp-tiny --nodes 1", {"--large", "bench simulator"});
  check_refused("bench search --models mpl --nodes 1", {"'mpl'", "mlp"});
  check_refused("bench search --nodes 0", {"--nodes", "'0'"});
}
