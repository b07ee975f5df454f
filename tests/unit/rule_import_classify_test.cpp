// What imported rules are worth: with the prover, and a library of a few rules.
#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/graph/evaluate.h"
#include "core/graph/text.h"
#include "core/rewrite/import/classify.h"
#include "core/rewrite/library.h"
#include "core/rewrite/rule_text.h"
#include "core/verify/verify.h"
#include "tests/support/peer_files.h"

namespace unity {
namespace {

using namespace test;

const char* const kLibrary = R"(
rule partition_of_relu
  partition(a, d, relu(x)) => relu(partition(a, d, x))

rule columns_of_matmul
  partition(1, d, matmul(x, w, transpose_w=t)) => matmul(replicate(d, x), partition(1 - t, d, w), transpose_w=t)
  where rank(x) == 2

rule unfuse_matmul_relu
  matmul(x, w, activation="relu", transpose_w=t) => relu(matmul(x, w, transpose_w=t))
)";

Finding prover(const Rule& rule) {
  Verification found = verify(rule);
  ImportVerdict verdict = found.verdict == Verdict::proved      ? ImportVerdict::proved
                          : found.verdict == Verdict::refuted   ? ImportVerdict::refuted
                          : found.verdict == Verdict::ill_typed ? ImportVerdict::ill_typed
                                                                : ImportVerdict::unknown;
  return {verdict, found.why, found.partial, found.record, found.counterexample};
}

std::vector<ImportedRule> classified(const std::vector<PeerRule>& rules) {
  return classify(parse_peer_rules(wire(rules), "f"), prover, parse_rules(kLibrary));
}
ImportedRule classified(const PeerRule& rule) { return classified(std::vector{rule}).front(); }

using Names = std::vector<std::string>;

TEST_CASE("a rule of the library is named") {
  ImportedRule rule = classified(
      peer_rule({linear({-1}, {-4}), partition(2, {0})}, {replicate(0, {-1}), partition(1, {-4}), linear({0}, {1})}));
  CHECK(rule.verdict == ImportVerdict::proved);
  CHECK(rule.library_rule() == "columns_of_matmul");
  CHECK(rule.record.rule == "imported_0");
}

TEST_CASE("a rule that follows from the library has its derivation") {
  // linear with relu, its columns cut: unfused, cut, and cut again.
  ImportedRule rule = classified(peer_rule({linear({-1}, {-4}, 2), partition(2, {0})},
                                           {replicate(0, {-1}), partition(1, {-4}), linear({0}, {1}), relu({2})}));
  CHECK(rule.verdict == ImportVerdict::proved);
  CHECK(rule.derivation == Names{"unfuse_matmul_relu", "partition_of_relu", "columns_of_matmul"});
  CHECK(rule.library_rule().empty());
}

TEST_CASE("a sound rule that the library does not give has no derivation") {
  ImportedRule rule = classified(peer_rule({partition(1, {-1}), combined(1, {0}), relu({1})}, {relu({-1})}));
  CHECK(rule.verdict == ImportVerdict::proved);
  CHECK_FALSE(rule.steps);
}

TEST_CASE("a rule that computes something else is refuted by a graph that shows it") {
  // (v1 v2) v3 is not (v2 v1) v3.
  ImportedRule rule =
      classified(peer_rule({matmul({-1}, {-2}), matmul({0}, {-3})}, {matmul({-2}, {-1}), matmul({0}, {-3})}));
  // A sum is in the same places as its summands' products, but differs.
  ImportedRule other = classified(peer_rule({add({-1}, {-2})}, {{"EW_MUL", {{-1}, {-2}}, {}}}));
  CHECK(other.verdict == ImportVerdict::refuted);
  CHECK(other.why == "the sides differ on random values");
  // Both sides can be evaluated again.
  std::size_t target = other.counterexample.find("target pcg");
  REQUIRE(target != std::string::npos);
  Pcg from = parse_pcg(other.counterexample.substr(7, target - 7));
  Pcg to = parse_pcg(other.counterexample.substr(target + 7));
  LeafValues leaves = random_leaves(from, {});
  CHECK(evaluate_outputs(from, leaves) != evaluate_outputs(to, leaves));
  CHECK(rule.verdict == ImportVerdict::refuted);
}

TEST_CASE("a rule that is wrong for several groups says where it is right") {
  // conv(x, w1) + conv(x, w2) = conv(x, w1 + w2) for any groups; channels joined are right for one group only.
  ImportedRule wrong = classified(peer_rule({conv2d({-1}, {-2}), conv2d({-1}, {-3}), concat(1, 4, {0}, {1})},
                                            {concat(0, 4, {-2}, {-3}), conv2d({-1}, {0})}));
  CHECK(wrong.verdict == ImportVerdict::refuted);
  CHECK(wrong.holds_where == "convolutions have one group");
}

TEST_CASE("a rule whose target is not always well-typed says what is in the way") {
  // A sum can be stacked where its operands are no partial sums themselves.
  ImportedRule rule = classified(peer_rule({add({-1}, {-2})}, {concat(0, 3, {-1}, {-2}), reduce(0, {0})}));
  CHECK(rule.verdict == ImportVerdict::proved);
  CHECK_THAT(rule.applies, Catch::Matchers::Contains("already holds partial sums"));
}

TEST_CASE("what can not be rewritten is ill-typed or unsupported, with the reason") {
  // Copies are no summands: this is 2 x in FlexFlow.
  ImportedRule rule = classified(peer_rule({replicate(0, {-1}), reduce(0, {0})}, {add({-1}, {-1})}));
  CHECK(rule.verdict == ImportVerdict::ill_typed);
  CHECK_THAT(rule.why, Catch::Matchers::Contains("no instance of the source is well-typed: reduce: found partials 1"));
  rule = classified(peer_rule({partition(1, {-1})}, {add({-1}, {-2}), partition(1, {0})}));
  CHECK(rule.verdict == ImportVerdict::ill_typed);
  CHECK(rule.why == "the target uses v2, which the source does not bind");
  CHECK(classified(peer_rule({replicate(1, {-1})}, {replicate(1, {-1})})).verdict == ImportVerdict::unsupported);
}

// How many rules of a file have each verdict. What is proved follows from the library, and is evaluated once
// more, at instances of another seed.
std::map<ImportVerdict, int> checked_counts(const PeerFile& file) {
  std::map<ImportVerdict, int> counts;
  for (const ImportedRule& rule : classify(file, prover, rule_library())) {
    ++counts[rule.verdict];
    if (rule.verdict != ImportVerdict::proved) continue;
    INFO(rule.text);
    CHECK(rule.steps.value_or(99) <= 3);
    InstanceSampler sampler(*rule.rule, {.seed = 99});
    for (int i = 0; i < 3; ++i)
      if (auto instance = sampler.next(); instance && instance->fault == InstanceFault::none)
        CHECK(evaluates_equal(instance->instance, 3));
  }
  return counts;
}

// Peers' own files, where they are given: UNITY_PEER_RULES names the folder.
TEST_CASE("the rules of TASO and FlexFlow are judged, and those of FlexFlow are the same in both formats") {
  const char* folder = std::getenv("UNITY_PEER_RULES");
  if (!folder) {
    WARN("skipped: UNITY_PEER_RULES does not name a folder with taso_graph_subst.pb and flexflow_graph_subst_3_v2");
    return;
  }
  std::string path = std::string(folder) + "/flexflow_graph_subst_3_v2";
  PeerFile flexflow = read_peer_rules(path + ".pb");
  CHECK(flexflow.rules == read_peer_rules(path + ".json.gz").rules);
  CHECK(flexflow.rules.size() == 640);
  CHECK(flexflow.numbering == PeerNumbering::flexflow);
  auto counts = checked_counts(flexflow);
  CHECK(counts[ImportVerdict::proved] >= 150);
  CHECK(counts[ImportVerdict::unsupported] == 375);

  PeerFile taso = read_peer_rules(std::string(folder) + "/taso_graph_subst.pb");
  CHECK(taso.rules.size() == 133);
  CHECK(taso.numbering == PeerNumbering::taso);
  counts = checked_counts(taso);
  CHECK(counts[ImportVerdict::proved] >= 122);
  // Convolutions that are merged as if they had one group, or equal channels.
  CHECK(counts[ImportVerdict::refuted] == 11);
}

}  // namespace
}  // namespace unity
