// Proofs on record: their text, and when they no longer hold.
#include <filesystem>

#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/graph/builder.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/axioms.h"
#include "core/rewrite/library.h"
#include "core/rewrite/rule_text.h"
#include "core/rewrite/signature.h"

namespace unity {
namespace {

const char* const kRule = "rule once\n  relu(relu(x)) => relu(x)\n";

ProofRecord record_of(const Rule& rule) {
  return {rule.name,
          hash_rule(rule),
          axioms_hash(rule, {"relu_of_relu"}),
          "Z3 4.8.12",
          0.25,
          "all",
          {"x:2", "x:3"},
          {1, 2, 0xfedcba9876543210, 0xffffffffffffffff, 0xffffffffffffffff, 0xffffffffffffffff},
          {"relu_of_relu"},
          12};
}

std::string error_of(const Result<const ProofRecord*>& result) { return result.ok() ? "" : result.error().message; }

TEST_CASE("a proof's text can be read again") {
  ProofRecord record = record_of(parse_rules(kRule)[0]);
  ProofRecord other = record;
  other.rule = "other", other.shapes = {}, other.degrees = "2, \"3\"";
  CHECK(parse_proofs(print(record) + "# a comment\n" + print(other)) == std::vector{record, other});
}

TEST_CASE("a proof is of one text of a rule and of the axioms it used") {
  Rule rule = parse_rules(kRule)[0];
  ProofRecord record = record_of(rule);
  CHECK(check_proof(rule, {record}).ok());
  CHECK(error_of(check_proof(rule, {})).find("has no proof on record") != std::string::npos);
  Rule changed = parse_rules("rule once\n  relu(relu(x)) => x\n")[0];
  CHECK(error_of(check_proof(changed, {record})).find("stale: it is of text") != std::string::npos);
  record.axioms.push_back("shard(matmul.n)");  // also on another operator's table: another hash
  CHECK(error_of(check_proof(rule, {record})).find("stale: it is from axioms") != std::string::npos);
}

TEST_CASE("a malformed proof is refused with its place") {
  std::string text = print(record_of(parse_rules(kRule)[0]));
  auto message = [](const std::string& text) {
    try {
      parse_proofs(text, "p.proofs");
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  CHECK(message("prove x") == "p.proofs:1:1: found 'prove', expected 'proof'");
  CHECK(message(text.substr(0, text.find("uses"))).find("expected 'uses'") != std::string::npos);
  std::string wrong = text;
  wrong.replace(wrong.find("rule=\"") + 6, 1, "x");
  CHECK(message(wrong).find("p.proofs:2:8: ") == 0);
  CHECK(message(wrong).find("expected a hash of hexadecimal digits") != std::string::npos);
}

TEST_CASE("a file of rules needs fresh proofs beside it") {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / "unity_proved_rules";
  std::filesystem::create_directories(folder);
  std::string path = (folder / "mine.rules").string();
  write_file_atomically(path, kRule);
  std::filesystem::remove(folder / "mine.proofs");
  CHECK_THROWS_WITH(load_proved_rules(path),
                    Catch::Contains("its proofs are missing") && Catch::Contains("mine.proofs"));
  Rule rule = parse_rules(kRule)[0];
  write_file_atomically(proofs_path(path), print(record_of(rule)));
  std::vector<Rule> loaded = load_proved_rules(path);
  REQUIRE(loaded.size() == 1);
  CHECK(loaded[0].proof == Proof::proved);
  write_file_atomically(path, "rule once\n  relu(relu(x)) => x\n");
  CHECK_THROWS_WITH(load_proved_rules(path), Catch::Contains("mine.rules: the proof of rule once is stale"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a proved rule applies where its signature is on record, and nowhere else") {
  Rule rule = parse_rules("rule join\n  matmul(x, w, activation=f) => matmul(x, w, activation=f, transpose_w=0)\n")[0];
  auto signature = [&](const Dims& x, const std::string& activation) {
    std::vector<ParallelShape> operands = {serial({x, DType::f32}), serial({{4, 6}, DType::f32})};
    RuleInstance at = instantiate(rule, operands, {activation}).instance;
    return signature_of(rule, at).logical;
  };
  // Sizes decide nothing, ranks and activations do.
  CHECK(signature({8, 4}, "relu") == signature({2, 4}, "relu"));
  CHECK(signature({8, 4}, "relu") != signature({2, 8, 4}, "relu"));
  CHECK(signature({8, 4}, "relu") != signature({8, 4}, "none"));

  rule.proof = Proof::proved;
  rule.signatures = {signature({8, 4}, "relu")};
  auto applied = [&](const Dims& x, const std::string& activation) {
    Builder b("g");
    ValueRef y = b.apply("matmul", {activation}, {b.input("x", x), b.weight("w", {4, 6})});
    Pcg pcg = std::move(b).finish({y});
    return apply(pcg, rule, find_matches(pcg, rule).at(0), {});
  };
  CHECK(applied({12, 4}, "relu").ok());
  CHECK(applied({12, 4}, "none").error().message.find("there is no proof for x f32[12, 4], w f32[4, 6]") !=
        std::string::npos);
  CHECK_FALSE(applied({3, 12, 4}, "relu").ok());
}

}  // namespace
}  // namespace unity
