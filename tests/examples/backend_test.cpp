// docs/howto/backend.md: a backend outside the tree, opened as a plug-in, trains as the CPU's does.

#include <cmath>
#include <cstdlib>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/paths.h"

using namespace command;
using nlohmann::json;

namespace {

const std::string kModel = std::string(UNITY_SOURCE_DIR) + "/experiments/models/two-tower.yaml";

struct Plugins {
  Plugins() { ::setenv("UNITY_PLUGINS", UNITY_BINARY_DIR "/examples", 1); }
  ~Plugins() { ::unsetenv("UNITY_PLUGINS"); }
};

}  // namespace

TEST_CASE("the reference backend has the losses of the CPU backend in double precision, on four devices") {
  Plugins plugins;
  std::string run = "run " + kModel + " --topology laptop --strategy expert --steps 4 --precision f64 --json";
  Outcome reference = unity(run + " --backend reference");
  INFO(reference.err);
  REQUIRE(reference.code == 0);
  json expected = json::parse(unity(run).out)["losses"], found = json::parse(reference.out)["losses"];
  REQUIRE(found.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(found[i].get<double>() == Approx(expected[i].get<double>()).epsilon(1e-12));
}

TEST_CASE("a backend says what it cannot do, and one that is not there is not known") {
  std::string run = "run " + kModel + " --topology laptop --devices 1 --steps 1";
  check_refused(run + " --backend reference", {"backend 'reference' is not known"});
  check_refused(run + " --backend ../cpu", {"backend '../cpu' is not known"});
  Plugins plugins;
  check_refused(run + " --backend reference", {"backend reference: precision is f32, expected f64"});
  check_refused(run + " --backend reference --precision f64 --optimizer 'adam 1e-3'",
                {"optimizer is adam", "expected sgd"});
}
