// What a person may get wrong in a plan file.
#include <algorithm>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/graph/text.h"
#include "core/plan/plan.h"
#include "tests/support/checksum.h"

using namespace unity;
using nlohmann::json;

namespace {

Plan small_plan() {
  Plan plan;
  plan.model = {"small.yaml", {{"batch", 4}}};
  plan.topology = "laptop", plan.global_batch = 4, plan.topology_hash = 0x20a2;
  plan.pcg = parse_pcg("pcg small { x = input([4, 2]) w = weight([2, 2]) return matmul(x, w) }", "test");
  plan.mappings.resize(plan.pcg.size());
  plan.optimizer = parse_optimizer("adam 1e-3");
  plan.derivation = {{"shard_matmul_m", "matmul", 2, 5}};
  plan.search.lower_bound = {1};
  plan.search.log.best_so_far = {{1, {2000}}};
  plan.search.log.seconds.best_so_far = {0.1};
  return plan;
}

const json& small_file() {
  static const json file = json::parse(files::without_checksum(plan_to_json(small_plan())));
  return file;
}

// What is said of it; empty: nothing.
std::string refusal(const std::string& text) {
  try {
    plan_from_json(text, "p.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string refusal_with(const std::string& place, const json& value) {
  json file = small_file();
  file[json::json_pointer(place)] = value;
  return refusal(file.dump());
}

}  // namespace

TEST_CASE("a key that no plan has is refused wherever it stands, with the nearest one") {
  CHECK(refusal(small_file().dump()).empty());
  CHECK(refusal_with("/optimizer/weight_decai", 0.1) ==
        "p.json: plan.optimizer: unknown key 'weight_decai' (did you mean 'weight_decay'?)");
  CHECK(refusal_with("/mappings/0/place", {0, 1}) ==
        "p.json: plan.mappings: unknown key 'place' (did you mean 'places'?)");
  for (const std::string place :
       {"", "/model", "/machine", "/optimizer", "/schedule", "/prediction", "/search", "/search/log",
        "/search/log/parts", "/search/log/seconds", "/search/log/best_so_far/0", "/derivation/0", "/mappings/0"})
    CHECK_THAT(refusal_with(place + "/zzz", 1), Catch::Contains("unknown key 'zzz'"));
}

TEST_CASE("a key that a plan file has twice is refused") {
  std::string text = small_file().dump();
  text.replace(text.find("\"schedule\":{"), 12, "\"schedule\":{\"zero_stage\":3,");
  CHECK(refusal(text) == "p.json: key 'zero_stage' is given twice");
}

TEST_CASE("values of another type are refused with the place where they stand") {
  for (const std::string place : {"derivation", "mappings", "pcg", "search.log.best_so_far"})
    for (const json& value : {json(), json::object(), json("x")}) {
      std::string pointer = "/" + place;
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      CHECK(refusal_with(pointer, value) ==
            fmt::format("p.json: plan.{}: found {}, expected a list", place, value.type_name()));
    }
  CHECK(refusal_with("/prediction/iteration_seconds", "soon") ==
        "p.json: plan.prediction.iteration_seconds: found \"soon\", expected another type");
  for (const char* hash : {"20a2 or so", "0x20a2", "-1", "", "120a276ddd1e4c639"})
    CHECK(refusal_with("/machine/hash", hash) ==
          fmt::format("p.json: plan.machine.hash: found '{}', expected 16 hexadecimal digits", hash));
}
