// What a GPU takes, measured on CUDA played on the host (support/fake_cuda.h).
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/profile/measure.h"
#include "tests/support/command.h"
#include "tests/support/fake_plugin.h"

using namespace unity;
using namespace unity::test;
using nlohmann::json;

TEST_CASE("rates and curves of a GPU, its copies to and from the host with them, are measured in f32 and bf16") {
  fake();
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    INFO(to_string(precision));
    ProfileOptions options{.task_seconds = 1e-3, .cache = {1 << 16}};
    options.executor.backend = "cuda", options.executor.precision = precision;
    ProfileSection section;
    CHECK(measure_curves(section, options, {.devices = 2, .largest = 1 << 12}) == 0);
    CHECK(section.peak > 0);
    CHECK(section.memory_bandwidth > 0);
    for (const char* name : {"copy", "copy to host", "copy from host", "update adam", "all_reduce of 2"}) {
      INFO(name);
      REQUIRE(section.curves.contains(name));
      CHECK_FALSE(section.curves.at(name).empty());
      for (const ProfilePoint& p : section.curves.at(name)) CHECK((p.warm > 0 && p.cold > 0));
    }
  }
}

TEST_CASE("what tracing adds to tasks is in their curves, as the simulator takes it off") {
  fake();
  ProfileOptions options{.task_seconds = 1e-4, .cache = {1 << 16}, .task_overhead = -1e-2};
  options.executor.backend = "cuda";
  ProfileSection section;
  measure_curves(section, options, {.devices = 1, .largest = 1 << 8});
  REQUIRE(section.curves.contains("update sgd"));
  for (const ProfilePoint& p : section.curves.at("update sgd")) CHECK(p.warm > 1e-2);
}

TEST_CASE("unity profile measures a GPU as a device of one thread, what steps and tasks have beside them first") {
  fake();
  command::Folder f;
  const std::string profile = f.file("gpu.yaml");
  command::Outcome o = command::unity("profile --backend cuda --budget 0.001 --json -o " + profile);
  INFO(o.err);
  REQUIRE(o.code == 0);
  json found = json::parse(o.out);
  CHECK(found["left"] > 10);  // rates and curves
  REQUIRE(found["sections"].size() == 1);
  CHECK(found["sections"][0]["threads"] == 1);
  CHECK(found["sections"][0]["task_overhead_seconds"].is_number());
  CHECK(found["sections"][0].contains("step_overhead_seconds"));  // null where beside others none is to be seen
  command::check_refused("profile --backend cuda --threads 2 -o " + profile, {"--threads: found 2", "expected none"});
}

TEST_CASE("communications among devices on one GPU are measured there, those among others are not tasks of one") {
  fake();
  command::Folder f;
  for (const auto& [machine, shared] : {std::pair("h200-shared --devices 3", true), {"dgx-h100 --nodes 1", false}}) {
    INFO(machine);
    const std::string plan = f.file("plan.json"), profile = f.file(shared ? "one.yaml" : "eight.yaml");
    REQUIRE(command::unity(fmt::format("search mlp-tiny --global-batch 48 --topology {} --strategy data-parallel -o {}",
                                       machine, plan))
                .code == 0);
    command::Outcome o =
        command::unity("profile " + plan + " --backend cuda --task-seconds 0.001 --json -o " + profile);
    INFO(o.err);
    REQUIRE(o.code == 0);
    CHECK(json::parse(o.out)["failed"] == 0);
    CHECK((command::read(profile).find("all_reduce") != std::string::npos) == shared);
  }
}
