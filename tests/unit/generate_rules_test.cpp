#include <filesystem>
#include <set>

#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/generate/generalise.h"
#include "core/generate/generate.h"
#include "core/generate/sharding.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/rule_text.h"
#include "tests/support/families.h"

namespace unity {
namespace {

std::string without_name(const Rule& rule) {
  std::string text = print(rule);
  return text.substr(text.find('\n') + 1);
}

std::set<std::string> texts(const GenerateResult& result) {
  std::set<std::string> all;
  for (const GeneratedRule& g : result.kept) all.insert(without_name(g.rule));
  return all;
}

GenerateOptions of(std::vector<Family> families) {
  GenerateOptions options;
  options.families = std::move(families);
  options.sharding = false;
  options.jobs = 1;
  return options;
}

TEST_CASE("the algebra of relu and layouts is found, for every degree and dimension") {
  std::set<std::string> found = texts(generate(of({relu_family()})));
  for (const char* rule : {
           "  combine(a, d, partition(a, d, x)) => x\n",
           "  partition(a, d, combine(a, d, x)) => x\n",
           "  partition(a, d, relu(x)) => relu(partition(a, d, x))\n",  // Unity, Fig. 11a
           "  relu(partition(a, d, x)) => partition(a, d, relu(x))\n",
           "  relu(combine(a, d, x)) => combine(a, d, relu(x))\n",
           "  replicate(d, relu(x)) => relu(replicate(d, x))\n",
       }) {
    INFO(rule);
    CHECK(found.contains(rule));
  }
}

TEST_CASE("a kernel of one element is a condition") {
  TermOperator bare = term_operator("conv2d"), padded = bare;
  padded.attributes[1] = Dims{1, 1, 1, 1};
  Family family{"kernels",
                {serial_leaf("x", {1, 4, 5, 5}), serial_leaf("w", {4, 4, 1, 1})},
                {bare, padded, term_operator("pad", {Dims{0, 0, 1, 1}, Dims{0, 0, 1, 1}})},
                2,
                1};
  bool found = false;
  for (const std::string& text : texts(generate(of({family}))))
    found = found || (text.starts_with("  pad([0, 0, 1, 1], [0, 0, 1, 1], conv2d(x, w") &&
                      text.find("dim(w, 2) == 1") != std::string::npos);
  CHECK(found);
}

TEST_CASE("rows that the family's indices never reach are not taken for equal") {
  Family family{"tables",
                {{"i", {serial({{4}, DType::i32})}, 6}, serial_leaf("t", {6, 4}), serial_leaf("u", {6, 4})},
                {term_operator("embedding"), term_operator("concat", {std::int64_t{0}}, 2)},
                2,
                1};
  GenerateResult result = generate(of({family}));
  // embedding(i, concat(0, t, u)) and embedding(i, concat(0, t, t)) agree on indices below 6.
  CHECK(result.families[0].pairs[static_cast<std::size_t>(PairFate::unread)] > 0);
  CHECK(result.contradicted.empty());
}

TEST_CASE("quotients that are undefined at different zeros are not equal") {
  Family family{"quotients",
                {serial_leaf("x", {4, 6}), serial_leaf("y", {4, 6}), serial_leaf("z", {4, 6})},
                {term_operator("div")},
                2,
                1};
  GenerateResult result = generate(of({family}));
  // x / (x / y) is y but where x is 0 or y is, and x / x no constant; x / y / z is undefined where x / z / y is.
  CHECK(texts(result) == std::set<std::string>{"  div(div(x, y), z) => div(div(x, z), y)\n"});
  CHECK(result.contradicted.empty());
}

TEST_CASE("a number of summands stays a number") {
  Family family{"sums",
                {serial_leaf("x", {4, 6}), serial_leaf("y", {4, 6})},
                {term_operator("add"), term_operator("stack_partials"), term_operator("reduce", {std::int64_t{2}})},
                2,
                1};
  std::set<std::string> found = texts(generate(of({family})));
  CHECK(found.contains("  add(x, y) => reduce(2, stack_partials(x, y))\n"));  // Unity, Fig. 11b
  CHECK(found.contains("  reduce(2, stack_partials(x, y)) => add(x, y)\n"));
}

TEST_CASE("a target that is well-typed in one layout alone asks for it") {
  ParallelShape summands = serial({{4, 6}, DType::f32});
  summands.partials = 2;
  Family family{"sums",
                {{"x", {summands}, 0}, {"y", {summands}, 0}},
                {term_operator("add"), term_operator("stack_partials"), term_operator("reduce", {std::int64_t{2}})},
                3,
                1};
  // The reduced operands are not partial, and the stack is of two, as their sum is: both have two summands.
  CHECK(texts(generate(of({family})))
            .contains("  add(x, y) => stack_partials(reduce(2, x), reduce(2, y))\n"
                      "  where partials(y) == 2\n"));
}

TEST_CASE("degrees multiply") {
  Family family{"degrees", {serial_leaf("x", {8})}, layout_operators({0}, 2), 2, 1};
  family.operators.push_back(term_operator("partition", {std::int64_t{0}, std::int64_t{4}}));
  CHECK(texts(generate(of({family}))).contains("  partition(a, e, partition(a, d, x)) => partition(a, d*e, x)\n"));
}

TEST_CASE("attributes that both sides share become variables") {
  Family family{"activation",
                {serial_leaf("x", {4, 6}), serial_leaf("w", {6, 6})},
                {term_operator("matmul"), term_operator("matmul", {std::string("relu")}), term_operator("relu")},
                2,
                1};
  CHECK(texts(generate(of({family})))
            .contains("  relu(matmul(x, w, transpose_w=transpose_w)) => matmul(x, w, activation=\"relu\", "
                      "transpose_w=transpose_w)\n"));
}

TEST_CASE("what a prover rejects is reported and not kept") {
  GenerateOptions options = of({relu_family()});
  options.prove = [](const Rule& rule) {
    bool layouts_only =
        std::none_of(rule.nodes.begin(), rule.nodes.end(), [](const PatternNode& n) { return n.op->name() == "relu"; });
    return ProofOutcome{layouts_only, "no axiom of relu", false};
  };
  GenerateResult result = generate(options);
  for (const GeneratedRule& g : result.kept) CHECK(g.rule.proof == Proof::proved);
  CHECK(!texts(result).contains("  partition(a, d, relu(x)) => relu(partition(a, d, x))\n"));
  REQUIRE(!result.unproved.empty());
  CHECK(result.unproved[0].why == "no axiom of relu");
  CHECK(result.completeness() < 1);
}

TEST_CASE("a proof does not make a wrong rule right") {
  GenerateOptions options = of({relu_family()});
  options.given = parse_rules("rule none relu(relu(x)) => relu(x)");  // wrong for the stand-in of relu: no road
  GenerateResult result = generate(options);
  CHECK(!texts(result).contains("  relu(relu(x)) => relu(x)\n"));
  CHECK(result.completeness() >= 0.99);
}

TEST_CASE("rules and counts are the same with any number of threads") {
  GenerateOptions options = of(select_families(default_families(), {"relu", "transpose", "degrees"}));
  GenerateResult one = generate(options);
  options.jobs = 3;
  GenerateResult three = generate(options);
  REQUIRE(one.kept.size() == three.kept.size());
  for (std::size_t i = 0; i < one.kept.size(); ++i) CHECK(print(one.kept[i].rule) == print(three.kept[i].rule));
  CHECK(one.candidates == three.candidates);
  for (std::size_t f = 0; f < one.families.size(); ++f) CHECK(one.families[f].pairs == three.families[f].pairs);
}

TEST_CASE("a generation that was cut off goes on to the same end") {
  auto directory = std::filesystem::temp_directory_path() / "unity_generate_resume_test";
  std::filesystem::remove_all(directory);
  GenerateOptions options = of({relu_family()});
  options.resume_directory = directory.string();
  GenerateResult whole = generate(options);
  std::string journal = read_file(directory / "candidates.journal");
  write_file_atomically(directory / "candidates.journal", journal.substr(0, journal.size() / 2));  // in mid-entry

  int proofs = 0;
  options.prove = [&](const Rule&) { return ++proofs, ProofOutcome{true, {}, false}; };
  GenerateResult resumed = generate(options);
  CHECK(texts(resumed) == texts(whole));
  CHECK(resumed.kept.size() == whole.kept.size());
  CHECK(proofs > 0);
  CHECK(proofs < static_cast<int>(whole.kept.size()));  // the first half is not proved again
  std::filesystem::remove_all(directory);
}

TEST_CASE("every equal pair of the relu family is derived in three steps") {
  GenerateResult result = generate(of({relu_family()}));
  CHECK(result.completeness() >= 0.99);
  CHECK(result.disproved.empty());
}

TEST_CASE("shardings are those of the axis tables, both ways") {
  std::set<std::string> forward, derived;
  for (const NamedPattern& p : sharding_patterns())
    if (!p.name.starts_with("un")) forward.insert(p.name);
  for (const Rule& rule : derived_rules()) derived.insert(rule.name);
  CHECK(forward == derived);
}

TEST_CASE("the splits that the literature names are there") {
  std::set<std::string> names;
  for (const NamedPattern& p : sharding_patterns()) names.insert(p.name);
  for (const char* name : {"shard_matmul_n", "shard_matmul_k", "reduce_matmul_0", "replicate_gelu", "shard_conv2d_oh",
                           "spread_layer_norm_d0", "spread_mul_d0", "shard_embedding_v", "shard_batch_matmul_b0",
                           "shard_top1_dispatch_b"}) {
    INFO(name);
    CHECK(names.contains(name));
  }
}

TEST_CASE("splitting the sum of a matrix product gives partial sums, at every rank and transposed, too") {
  std::vector<std::string> found;
  for (const NamedPattern& p : sharding_patterns(get_operator("matmul")))
    if (p.name == "shard_matmul_k") {
      Generalised general = generalise(p.pattern, p.name);
      REQUIRE(!general.forms.empty());
      found.push_back(without_name(general.forms.back()));
    }
  CHECK(found == std::vector<std::string>{
                     "  matmul(x1, x2) => reduce(d, matmul(partition(1, d, x1), partition(0, d, x2)))\n"
                     "  where rank(x1) == 2, rank(x2) == 2\n",
                     "  matmul(x1, x2, transpose_w=1) => reduce(d, matmul(partition(2, d, x1), partition(1, d, x2), "
                     "transpose_w=1))\n  where rank(x1) == 3, rank(x2) == 2\n",
                     "  matmul(x1, x2) => reduce(d, matmul(partition(2, d, x1), partition(0, d, x2)))\n"
                     "  where rank(x1) == 3, rank(x2) == 2\n"});
}

TEST_CASE("a sharding that a rule of its name gives becomes no rule of its own") {
  NamedPattern at_two, at_three;
  for (NamedPattern& p : sharding_patterns(get_operator("softmax")))
    if (p.name == "shard_softmax_d0") (p.pattern.layouts[0].dims.size() == 2 ? at_two : at_three) = std::move(p);
  REQUIRE(at_two.name == "shard_softmax_d0");
  REQUIRE(at_three.name == "shard_softmax_d0");
  Rule any = parse_rules("rule r softmax(x1) => combine(0, d, softmax(partition(0, d, x1)))")[0];
  Rule at_rank_two =
      parse_rules("rule r softmax(x1) => combine(0, d, softmax(partition(0, d, x1))) where rank(x1) == 2")[0];
  CHECK(gives(any, at_two));
  CHECK(gives(any, at_three));
  CHECK(gives(at_rank_two, at_two));
  CHECK_FALSE(gives(at_rank_two, at_three));
}

TEST_CASE("rules are written to one file for each subject, and can be read") {
  auto directory = std::filesystem::temp_directory_path() / "unity_generate_write_test";
  std::filesystem::remove_all(directory);
  GenerateResult result = generate(of({relu_family()}));
  write_rules(result, directory.string());
  std::size_t read = 0;
  for (const char* subject : {"elementwise", "parallelization"})
    read += load_rules((directory / (std::string(subject) + ".rules")).string()).size();
  CHECK(read == result.kept.size());
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace unity
