// Searches as a user meets them: what is printed, and what is refused.

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

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

TEST_CASE("a plan that does not fit in memory is an entry with an error, and a comparison of no plans fails") {
  Folder f;
  const std::string command =
      "compare mlp-mnist --topology summit --nodes 1 --devices 2 --memory-limit '1 MB' --strategies data-parallel";
  Outcome o = unity(command + " --json");
  REQUIRE(o.code == 1);
  CHECK(json::parse(o.out)[0]["error"].get<std::string>().find("which is limited to 1 MB") != std::string::npos);
  CHECK(o.err == "unity: error: compare: no strategy has a plan\n");
  o = unity(command + " -o " + f.file("plan.json"));
  CHECK(o.code == 1);
  CHECK(o.out.find("which is limited to 1 MB") != std::string::npos);
  CHECK(o.err == "unity: error: compare: no strategy has a plan; " + f.file("plan.json") + " is not written\n");
  CHECK_FALSE(fs::exists(f.file("plan.json")));
}

TEST_CASE("each plan of a front says why the search ended") {
  const json front =
      json::parse(unity("search mlp-tiny --topology summit --nodes 1 --devices 2 --pareto --json").out)["front"];
  REQUIRE(front.size() >= 2);
  for (const json& plan : front) CHECK_FALSE(plan["stopped_because"].get<std::string>().empty());
}

TEST_CASE("a search that no time was left for fails, but its command was right") {
  Outcome o = unity("search bert-large --topology summit --nodes 1 --time-limit 0.000001");
  CHECK(o.code == 1);
  CHECK(o.err.find("time limit of 1e-06 s before a plan was found") != std::string::npos);
}

TEST_CASE("a wrong command is one, whatever time has passed") {
  check_refused(
      "search mlp-mnist --topology summit --devices 7 --global-batch 10 --strategy data-parallel"
      " --time-limit 0.0001",
      {"batch of 10 samples is not divisible by 7 devices"});
}

TEST_CASE("a batch that cannot be cut into so many micro-batches is refused") {
  check_refused("search bert-tiny --topology summit --nodes 1 --micro-batches 7 --global-batch 24",
                {"strategy unity: pipeline: 7 micro-batches do not divide", "24"});
}

TEST_CASE("a file of a front that cannot be written is refused before the search") {
  Folder f;
  std::filesystem::create_directory(f.file("p-2.json"));
  check_refused("search mlp-tiny --topology summit --nodes 1 --pareto -o " + f.file("p.json"), {"p-2.json", "folder"});
  CHECK_FALSE(std::filesystem::exists(f.file("p.json")));
}

TEST_CASE("a front goes to regular files, and those of a larger front before it are named") {
  Folder f;
  const std::string command = "search mlp-tiny --topology summit --nodes 1 --devices 2 --strategy pipeline ";
  REQUIRE(mkfifo(f.file("pipe.json").c_str(), 0600) == 0);
  for (const std::string& path : {std::string("/dev/stdout"), std::string("/dev/null"), f.file("pipe.json")})
    check_refused(command + "--pareto -o " + path, {"--output: found " + path + ", expected a regular file"});
  CHECK(unity(command + "-o /dev/null").code == 0);
  f.write("p-2.json", "{}"), f.write("p-102.json", "{}"), f.write("p-101.json", "{}"), f.write("p-0101.json", "{}");
  Outcome front = unity(command + "--pareto --json -o " + f.file("p.json"));
  REQUIRE(front.code == 0);
  const std::string count = std::to_string(json::parse(front.out)["front"].size());
  CHECK(front.err == "unity: warning: " + f.file("p-101.json") + ", " + f.file("p-102.json") +
                         ": there from before, are not of this front of " + count + " plans\n");
  CHECK(json::parse(read(f.file("p-2.json")))["format"] == "unity-plan");
}

TEST_CASE("a model file's optimizer is refused with its place") {
  Folder f;
  std::string text = read(UNITY_SOURCE_DIR "/experiments/models/two-tower.yaml");
  text.replace(text.find("sgd 0.05"), 8, "adam foo");
  const std::string model = f.write("m.yaml", text);
  for (const std::string& command : {"show " + model, "search " + model + " --topology laptop --optimizer sgd"})
    check_refused(command, {model + ":28:12: optimizer: ", "'foo'"});
}

TEST_CASE("an output file has a name") {
  for (const std::string command : {"search mlp-tiny --topology laptop", "compare mlp-tiny --topology laptop"}) {
    check_refused(command + " -o -", {"--output: found '-', expected a file to write", "/dev/stdout"});
    check_refused(command + " -o ''", {"--output: found '', expected a value"});
  }
}

TEST_CASE("a seed below zero is refused") {
  check_refused("search mlp-tiny --topology summit --nodes 1 --strategy random --seed -1", {"--seed", "-1"});
}

TEST_CASE("more stages than the model has operators are refused") {
  check_refused("search mlp-tiny --topology summit --nodes 1 --strategy pipeline --stages 6 --micro-batches 2",
                {"6 stages", "4 operators"});
}
