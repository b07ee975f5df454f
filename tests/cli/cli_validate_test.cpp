// unity validate: predictions laid over measurements, by kind of task and task by task.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

using namespace command;
using nlohmann::json;

TEST_CASE("validate lists every task, predicted and measured, where asked to") {
  std::string validate = "validate mlp-tiny --topology laptop --devices 2 --global-batch 60 --steps 3 --json ";
  json usual = json::parse(unity(validate).out), found = json::parse(unity(validate + "--tasks 1").out);
  CHECK_FALSE(usual.contains("tasks"));
  REQUIRE(found["tasks"].size() > 5);
  CHECK(found["tasks"].size() ==
        found["profiled_tasks"].get<std::size_t>() + found["estimated_tasks"].get<std::size_t>());
  std::map<std::string, double> predicted, measured;
  double error = 0;
  int counted = 0;
  for (const json& task : found["tasks"]) {
    CHECK_FALSE(task["name"].get<std::string>().empty());
    predicted[task["group"]] += task["predicted_seconds"].get<double>();
    measured[task["group"]] += task["measured_seconds"].get<double>();
    if (task["ratio"].is_null()) continue;
    double ratio = task["predicted_seconds"].get<double>() / task["measured_seconds"].get<double>();
    CHECK(task["ratio"].get<double>() == Approx(ratio));
    error += std::abs(ratio - 1), ++counted;
  }
  CHECK(found["task_mape"].get<double>() == Approx(error / counted));
  REQUIRE(found["groups"].size() == predicted.size());
  for (const json& group : found["groups"]) {
    CHECK(group["predicted_seconds"].get<double>() == Approx(predicted[group["group"]]));
    CHECK(group["measured_seconds"].get<double>() == Approx(measured[group["group"]]));
  }
}

TEST_CASE("validate --tasks N prints the N that are off by most, of one plan and of several") {
  Outcome one = unity("validate mlp-tiny --topology laptop --devices 2 --global-batch 60 --steps 3 --tasks 3");
  INFO(one.out << one.err);
  REQUIRE(one.code == 0);
  std::size_t list = one.out.find("\nthe 3 of ");
  REQUIRE(list != std::string::npos);
  CHECK(one.out.find(" tasks that are off by most:\n", list) != std::string::npos);
  CHECK(one.out.find("predicted / measured", list) != std::string::npos);
  std::string rows = one.out.substr(one.out.find("predicted / measured", list));
  CHECK(std::count(rows.begin(), rows.end(), '(') == 3);  // "matmul layer.0 (forward matmul)"
  Outcome two =
      unity("validate mlp-tiny --topology laptop --devices 2 --global-batch 60 --steps 3 --random 1 --tasks 2");
  INFO(two.out << two.err);
  REQUIRE(two.code == 0);
  CHECK(two.out.find("\nthe 2 of ") != std::string::npos);
  check_refused("validate mlp-tiny --topology laptop --tasks 0", {"--tasks"});
}

TEST_CASE("validate of several plans in rounds says how well measurements repeat") {
  const std::string two = "validate mlp-tiny --topology laptop --devices 2 --global-batch 60 --random 1 --steps 3";
  CHECK_FALSE(json::parse(unity(two + " --json").out).contains("repeatability"));
  json found = json::parse(unity(two + " --rounds 3 --json").out);
  std::vector<double> difference;  // of even rounds, and of odd ones
  for (bool even : {true, false}) {
    std::vector<double> fastest;
    for (const json& plan : found["plans"]) {
      const std::vector<double> seconds = plan["measured_seconds_of_rounds"];
      REQUIRE(seconds.size() == 3);
      CHECK(plan["measured_seconds"] == *std::min_element(seconds.begin(), seconds.end()));
      fastest.push_back(even ? std::min(seconds[0], seconds[2]) : seconds[1]);
    }
    REQUIRE(fastest.size() == 2);
    difference.push_back(fastest[1] - fastest[0]);
  }
  if (difference[0] != 0 && difference[1] != 0)  // of two plans the order is the same, or it is not
    CHECK(found["repeatability"].get<double>() == Approx(difference[0] * difference[1] > 0 ? 1 : -1));
  Outcome text = unity(two + " --rounds 2");
  CHECK(text.out.find("one half of the rounds against the other: rank correlation ") != std::string::npos);
}

TEST_CASE("a model or plan whose first output is no scalar is not trained, and it is said where") {
  Folder f;
  std::string text = read(UNITY_SOURCE_DIR "/experiments/models/two-tower.yaml");
  text.replace(text.find("outputs:"), std::string("outputs: [loss, join.logits]").size(),
               "outputs: [join.logits, loss]");
  const std::string model = f.write("logits.yaml", text), plan = f.file("logits.json");
  const std::string found = "outputs: found 'join.logits' first, f32[24, 12], expected a scalar, the loss";
  check_refused("run " + model + " --topology laptop --steps 1", {model + ":27:10: " + found});
  check_refused("validate " + model + " --topology laptop --steps 1", {model + ":27:10: " + found});
  check_refused("profile " + model + " --topology laptop --list-missing", {model + ":27:10: " + found});
  REQUIRE(
      unity("search " + model + " --topology laptop --devices 1 --global-batch 24 --strategy data-parallel -o " + plan)
          .code == 0);
  check_refused("run " + plan + " --steps 1", {plan + ": plan.pcg: " + found});
  check_refused("validate " + plan + " --steps 1", {plan + ": plan.pcg: " + found});
}
