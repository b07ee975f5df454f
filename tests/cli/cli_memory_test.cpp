// What fits in the memory of a device, as the commands judge it.
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/small_machine.h"

using namespace command;
using nlohmann::json;

TEST_CASE("a search offloads what needs it to fit, but not where --offload none is given") {
  Folder f;
  std::string tight = "search mlp-tiny --topology summit --nodes 1 --devices 1 --memory-limit 700kB --budget 50 -o ";
  REQUIRE(unity(tight + f.file("usual.json")).code == 0);
  CHECK(read(f.file("usual.json")).find("\"offload\": \"optimizer\"") != std::string::npos);
  Outcome none = unity(tight + f.file("none.json") + " --offload none");
  INFO(none.err);
  REQUIRE(none.code == 0);  // in micro-batches, and slower
  CHECK(read(f.file("none.json")).find("\"offload\": \"none\"") != std::string::npos);
}

TEST_CASE("whether a run fits is judged in its precision") {
  Folder f;
  std::string model = "mlp-tiny --global-batch 512 --topology ";
  json found = json::parse(
      unity("search " + model + machine_with_memory(f, "large", 1'000'000'000) + " --strategy data-parallel --json")
          .out);
  // As much as it takes in f32, and a quarter more; in f64 it takes nearly twice that.
  std::string tight = machine_with_memory(f, "tight", found["peak_memory_bytes"].get<std::int64_t>() * 5 / 4);
  CHECK(unity("run " + model + tight + " --steps 1").code == 0);
  check_refused("run " + model + tight + " --steps 1 --precision f64", {"plan for mlp-tiny: needs ", "which has "});
  check_refused("validate " + model + tight + " --steps 1 --precision f64", {"plan for mlp-tiny: needs "});
}

TEST_CASE("a run that does not fit says which plan would, and the command that it names finds that plan") {
  Folder f;
  std::string model = "mlp-tiny --global-batch 512 --optimizer 'adam 0.002' --topology ";
  json found = json::parse(
      unity("search " + model + machine_with_memory(f, "large", 1'000'000'000) + " --strategy data-parallel --json")
          .out);
  std::string tight = machine_with_memory(f, "tight", found["peak_memory_bytes"].get<std::int64_t>() * 5 / 4);
  std::string families =
      f.write("families.yaml",
              "format: unity-mappings\nversion: 1\nfamilies:\n  - {name: every other, dimensions: 1, where: 2 * d0 <= "
              "devices, each: {s: 2}, start: s, strides: [2]}\n");
  Outcome refused = unity("run " + model + tight + " --steps 1 --precision f64 --mappings " + families);
  INFO(refused.err);
  REQUIRE(refused.code == 2);
  const std::string before = "a plan that fits needs ", command = "unity search ", file = "fits.json";
  CHECK(refused.err.find(before) != std::string::npos);
  std::size_t begin = refused.err.find(command), end = refused.err.find(file);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  begin += std::string("unity ").size();
  REQUIRE(unity(refused.err.substr(begin, end - begin) + f.file(file)).code == 0);
  Outcome run = unity("run " + f.file(file) + " --steps 1 --precision f64");
  INFO(run.err);
  CHECK(run.code == 0);
  CHECK(read(f.file(file)).find("adam") != std::string::npos);  // whose states need memory
  CHECK(refused.err.find("--optimizer 'adam 0.002'") != std::string::npos);
  CHECK(refused.err.find("--mappings '" + families + "'") != std::string::npos);

  // Of one sample, the weights alone are half of it, and other things are needed in any case.
  model = "mlp-tiny --global-batch 1 --topology ";
  found = json::parse(
      unity("search " + model + machine_with_memory(f, "large", 1'000'000'000) + " --strategy data-parallel --json")
          .out);
  tight = machine_with_memory(f, "tight", found["peak_memory_bytes"].get<std::int64_t>());
  check_refused("run " + model + tight + " --steps 1 --precision f64", {"needs ", "and no plan was found that fits: "});
}

TEST_CASE("that one device is too small to compare with is said before anything is trained") {
  Folder f;
  const std::string tight = machine_with_memory(f, "tight", 800'000, 4);
  check_refused(
      "run mlp-tiny --batch-per-gpu 16 --devices 4 --strategy deepspeed-zero --steps 2 "
      "--data digits --compare-one-device --topology " +
          tight,
      {"--compare-one-device: plan for mlp-tiny: needs ", "800 kB"});
}
