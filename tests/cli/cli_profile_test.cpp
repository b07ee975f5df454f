// unity profile --curves: rates and curves of this machine's device.
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

using namespace command;
using nlohmann::json;

TEST_CASE("profile --curves measures rates, and how all kinds of tasks go with their size") {
  Folder f;
  std::string plan = f.file("plan.json"), profile = f.file("profile.yaml");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel -o " + plan)
              .code == 0);
  Outcome o = unity("profile --curves --threads 1 --task-seconds 0.0002 --json -o " + profile);
  INFO(o.err);
  REQUIRE(o.code == 0);
  json section = json::parse(o.out)["sections"][0];
  CHECK(section["threads"] == 1);
  CHECK(section["tasks"] == 0);
  // Between what any core does, and what none does.
  CHECK(section["peak_flops"] > 1e8);
  CHECK(section["peak_flops"] < 1e13);
  CHECK(section["memory_bandwidth"] > 1e8);
  CHECK(section["memory_bandwidth"] < 1e13);
  std::string text = read(profile);
  for (const char* curve : {"copy", "copy to host", "copy from host", "accumulate", "zero", "update adam",
                            "all_reduce of 4", "reduce_scatter of 2"})
    CHECK(text.find("\n      " + std::string(curve) + ": {") != std::string::npos);
  // No task was measured, but all are estimated otherwise.
  json without = json::parse(unity("simulate " + plan + " --json").out),
       with = json::parse(unity("simulate " + plan + " --json --profile " + profile).out);
  CHECK(with["iteration_seconds"] != without["iteration_seconds"]);
  // A plan says whose times it was found with, and they are missed where they are not given again.
  const std::string search =
      "search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel ";
  REQUIRE(unity(search + "--profile " + profile + " -o " + f.file("measured.json")).code == 0);
  for (const std::string command : {"simulate ", "explain "}) {
    CHECK_THAT(unity(command + f.file("measured.json")).err,
               Catch::Matchers::Contains("measured.json: found with times measured on "));
    CHECK(unity(command + f.file("measured.json") + " --profile " + profile).err.empty());
    CHECK(unity(command + plan).err.empty());
  }
  // Those of a CPU are none of a GPU's.
  check_refused("search mlp-tiny --topology summit --devices 2 --profile " + profile,
                {profile, "holds times of backend cpu", "of kind gpu in topology 'summit'"});
}

TEST_CASE("numbers that have to be above 0 say so") {
  for (const std::string option : {"--budget", "--task-seconds"})
    for (const std::string value : {"0", "-1", "nan", "soon"})
      check_refused("profile " + option + " " + value,
                    {"profile: " + option + ": found '" + value + "', expected a number above 0"});
  check_refused("run mlp-tiny --comm-timeout 0",
                {"run: --comm-timeout: found '0', expected a number from 0.001 to 10000000"});
  for (const std::string value : {"2", "-0.1", "half"})
    check_refused("validate mlp-tiny --quantile " + value,
                  {"validate: --quantile: found '" + value + "', expected a number from 0 to 1"});
}
