// Cross-entropy with the logits split by vocabulary (Shoeybi et al., 2019, section 3), derived by rules and run.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/plan/lower.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/library.h"
#include "core/rewrite/normalize.h"
#include "tests/support/plan_builder.h"
#include "tests/support/rewrite_check.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;

namespace {

const char* const kRows = R"(pcg rows {
  x = input([8, 6])
  labels = input([8], dtype="i32")
  words = weight([6, 16])
  return cross_entropy(matmul(x, words), labels)
})";

// The same table looks words up and scores them.
const char* const kTied = R"(pcg tied {
  tokens = input([4, 3], dtype="i32")
  labels = input([4, 3], dtype="i32")
  words = weight([16, 6])
  return cross_entropy(matmul(tanh(embedding(tokens, words)), words, transpose_w=1), labels)
})";

Pcg apply_named(const Pcg& pcg, const std::string& name) {
  const std::vector<Rule>& rules = rule_library();
  auto rule = std::find_if(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == name; });
  REQUIRE(rule != rules.end());
  std::vector<Match> matches = find_matches(pcg, *rule);
  REQUIRE(matches.size() == 1);
  return normalize(apply(pcg, *rule, matches[0], {}).value());
}

// Splits what dimension `dim` of the result of the first `op` is part of.
Pcg split(const Pcg& pcg, std::string_view op, int dim, int degree, std::vector<DerivationEvent>* log = nullptr,
          bool uneven = false) {
  std::vector<AxisClass> classes = axis_classes(pcg);
  std::optional<std::size_t> found = class_of_dimension(pcg, classes, {find_node(pcg, op), 0}, dim);
  REQUIRE(found);
  return shard_class(pcg, classes[*found], degree, log, uneven).value();
}

void check_trains_like(const Pcg& serial, const Pcg& parallel, int devices) {
  INFO(print(parallel));
  check_same_function(serial, parallel);
  auto inputs = random_inputs(serial, seed_of_run());
  Program one = lower(serial, natural_mappings(serial), uniform_topology(1)).value();
  Program several = lower(parallel, natural_mappings(parallel), uniform_topology(devices)).value();
  Run exact = run(one, inputs, Precision::f64);
  auto scale = scales(exact);
  CHECK(distance(run(several, inputs, Precision::f64), exact, scale) <= 1e-12);
  CHECK(distance(run(several, inputs, Precision::f32), run(one, inputs, Precision::f32), scale) <= 1e-5);
}

}  // namespace

TEST_CASE("vocabulary-parallel cross-entropy is derived from cross_entropy by rules of the library") {
  Pcg serial = normalize(parse_pcg(kRows));
  Pcg parts = apply_named(serial, "unfuse_cross_entropy");
  check_same_function(serial, parts);
  for (int d : {2, 4}) {
    std::vector<DerivationEvent> log;
    Pcg parallel = split(parts, "matmul", 1, d, &log);
    std::vector<std::string> rules;
    for (const DerivationEvent& e : log) rules.push_back(e.rule);
    CHECK(rules == std::vector<std::string>{"shard_matmul_n", "shard_reduce_max_d1", "shard_sub_d1", "shard_exp_d1",
                                            "shard_reduce_sum_d1", "shard_pick_c"});
    // The logits are never put together: of every row, one maximum, one sum and one logit are.
    CHECK(count_nodes(parallel, "combine") == 0);
    CHECK(count_nodes(parallel, "reduce") == 3);
    check_trains_like(serial, parallel, d);
    CHECK(canonical_hash(apply_named(parts, "fuse_cross_entropy")) == canonical_hash(serial));
  }
}

TEST_CASE("a table that looks words up and scores them is split by words in both places, in a grid with the batch") {
  Pcg serial = normalize(parse_pcg(kTied));
  Pcg parts = apply_named(serial, "unfuse_cross_entropy_of_sequences");
  Pcg parallel = split(split(parts, "matmul", 0, 2), "matmul", 2, 2);
  NodeId table = find_node(parallel, "embedding");
  CHECK(to_string(parallel.shape(parallel[table].inputs[1])) == "f32[16/2, 6] copies 2");
  CHECK(count_nodes(parallel, "combine") == 0);
  check_trains_like(serial, parallel, 4);
}

TEST_CASE("a vocabulary that the devices do not divide is split into parts that differ by a word") {
  Pcg serial = normalize(parse_pcg(R"(pcg odd {
    x = input([8, 6])
    labels = input([8], dtype="i32")
    return cross_entropy(matmul(x, weight([6, 17])), labels)
  })"));
  Pcg parallel = split(apply_named(serial, "unfuse_cross_entropy"), "matmul", 1, 4, nullptr, true);
  CHECK(to_string(parallel.shape({find_node(parallel, "exp"), 0})) == "f32[8, 17/4]");
  check_trains_like(serial, parallel, 4);
}

TEST_CASE("where everything is computed on every device, splitting by vocabulary spreads the logits over them") {
  Pcg serial = normalize(parse_pcg(kTied));
  Pcg copied = apply_replicate_everywhere(apply_named(serial, "unfuse_cross_entropy_of_sequences"), 4).value();
  Pcg parallel = split(copied, "matmul", 2, 4);
  CHECK(to_string(parallel.shape({find_node(parallel, "exp"), 0})) == "f32[4, 3, 16/4]");
  check_trains_like(serial, parallel, 4);
}

TEST_CASE(
    "a table of which some parts are updated by rows, others by a gradient that arrives, shows its whole gradient") {
  // The parts (words, columns) are stored on devices 4 w + c and used on 2 c + w: of the eight, 0 and 7 stay.
  const std::string leaves = R"(
    tokens = input([4, 3], dtype="i32")
    y = input([4, 3, 8])
    words = weight([2, 8], init="normal")
  )";
  Pcg serial = parse_pcg("pcg one {" + leaves + "return mean_squared_error(embedding(tokens, words), y) }");
  Pcg parallel = parse_pcg("pcg parts {" + leaves + R"(
    parts = embedding(replicate(8, tokens), partition(1, 4, partition(0, 2, words)))
    return mean_squared_error(combine(2, 4, reduce(2, parts)), y)
  })");
  check_trains_like(serial, parallel, 8);
}
