// What unity run is fed, and what it refuses.
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/child.h"
#include "tests/support/command.h"

using namespace command;
using nlohmann::json;

TEST_CASE("labels and indices are drawn as the model takes them, however a plan splits them") {
  json run =
      json::parse(unity("run dlrm --topology laptop --devices 3 --option rows=17 --option hidden=16 --global-batch "
                        "6 --steps 3 --precision f64 --strategy data-parallel --compare-one-device --json")
                      .out);
  CHECK(run["final_metrics"]["largest_relative_loss_difference"] < 1e-12);
}

TEST_CASE("where all evaluations are NaN, none is the best, and no prediction is right") {
  const Outcome outcome = unity(
      "run mlp-tiny --topology laptop --devices 1 --data digits --epochs 3 --early-stop 2 --early-stop-on loss "
      "--optimizer 'sgd 1e30' --json");
  const json run = json::parse(outcome.out);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, Catch::Matchers::StartsWith("unity: warning: step 2: the loss is "));
  CHECK(outcome.error_lines() == 1);
  CHECK(run["stopped_early"] == true);
  CHECK(run["best_epoch"].is_null());
  CHECK(run["final_metrics"]["test_loss"].is_null());
  CHECK(run["final_metrics"]["test_accuracy"] == 0);
}

TEST_CASE("training that is interrupted ends behind a step with its checkpoint, and goes on as if nothing had been") {
  for (int signal : {SIGINT, SIGTERM}) {
    Folder f;
    std::vector<std::string> words = {
        "run",     "mlp-tiny", "--topology",   "laptop",       "--devices",           "2",
        "--steps", "1000000",  "--checkpoint", f.file("ckpt"), "--schedule",          "constant",
        "--data",  "digits",   "--trace",      f.file("t"),    "--compare-one-device"};
    Child child(f, words);
    REQUIRE(child.listens());
    REQUIRE(child.works(1));
    child.press(signal);
    int status = child.wait();
    INFO(read(f.file("err")));
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(read(f.file("err")).find("stopping behind this step; Ctrl-C again ends at once") != std::string::npos);
    CHECK(read(f.file("err")).find("not written, as training was interrupted") != std::string::npos);
    const std::string out = read(f.file("out")), words_before = "interrupted, after ";
    const std::size_t at = out.find(words_before);
    REQUIRE(at != std::string::npos);
    const int done = std::stoi(out.substr(at + words_before.size()));
    const std::string to_the_end =
        "run mlp-tiny --topology laptop --devices 2 --data digits --schedule constant --json "
        "--steps " +
        std::to_string(done + 2);
    const json resumed = json::parse(unity(to_the_end + " --resume --checkpoint " + f.file("ckpt")).out);
    CHECK(resumed["first_step"] == done);
    CHECK(resumed["interrupted"] == false);
    const json whole = json::parse(unity(to_the_end).out);
    for (int i : {0, 1}) CHECK(resumed["losses"][i] == whole["losses"][done + i]);
  }
}

TEST_CASE("an empty value of an option is refused, and no file is named '-'") {
  check_refused("run mlp-tiny --steps 1 --checkpoint '' --resume", {"--checkpoint: found '', expected a value"});
  check_refused("search mlp-tiny --topology ''", {"--topology", "found ''"});
  for (const char* option : {"--trace -", "--save-gradients -"})
    check_refused(std::string("run mlp-tiny --steps 1 ") + option, {"found '-'", "/dev/stdout"});
  check_refused("run mlp-tiny --steps 1 --comm-timeout 1e9", {"--comm-timeout", "from 0.001 to 10000000"});
  check_refused("rules generate --seconds -1", {"--seconds", "found '-1'"});
}

TEST_CASE("a profile of another device is not added to") {
  Folder f;
  std::string profile = f.write("other.yaml",
                                "format: unity-profile\nversion: 2\ndevice: Another CPU\ndate: 2026-01-31\nbackend: "
                                "cpu\nprecision: f32\nsections:\n  - {threads: 1, task_overhead: 1e-6}\n");
  check_refused("profile mlp-tiny --topology laptop --devices 1 -o " + profile,
                {"other.yaml: holds a profile of device Another CPU; expected "});
}
