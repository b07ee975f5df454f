// Searches as a user meets them: what is printed, and what is refused.

#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace {

using nlohmann::json;

using namespace command;

}  // namespace

TEST_CASE("a front says its plans, why the search ended, and what it looked at") {
  const std::string command = "search mlp-tiny --topology summit --nodes 1 --devices 2 --strategy pipeline --pareto";
  const std::string text = unity(command).out;
  json all = json::parse(unity(command + " --json").out), front = all["front"];
  REQUIRE(front.size() >= 2);
  for (std::size_t i = 1; i < front.size(); ++i) {
    CHECK(front[i]["iteration_seconds"] > front[i - 1]["iteration_seconds"]);
    CHECK(front[i]["peak_memory_bytes"] < front[i - 1]["peak_memory_bytes"]);
  }
  CHECK(all["search_log"]["best_so_far"].size() >= 1);
  CHECK(text.find("\nstopped: " + front[0]["stopped_because"].get<std::string>()) != std::string::npos);
  CHECK(text.find("\ncandidates: " + std::to_string(front[0]["candidates"].get<int>())) != std::string::npos);
}

TEST_CASE("a plan that does not fit in memory is an entry with an error") {
  Outcome o = unity(
      "compare mlp-mnist --topology summit --nodes 1 --devices 2 --memory-limit '1 MB' --strategies data-parallel "
      "--json");
  REQUIRE(o.code == 0);
  CHECK(json::parse(o.out)[0]["error"].get<std::string>().find("which has 1 MB") != std::string::npos);
}

TEST_CASE("more stages than the model has operators are refused") {
  check_refused("search mlp-tiny --topology summit --nodes 1 --strategy pipeline --stages 6 --micro-batches 2",
                {"6 stages", "4 operators"});
}
