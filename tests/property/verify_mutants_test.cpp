// Wrong rules are not proved, by a prover that evaluates nothing.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/rewrite/derive.h"
#include "core/rewrite/library.h"
#include "core/rewrite/signature.h"
#include "core/verify/verify.h"
#include "tests/support/mutate_rule.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

constexpr int kMutants = 500;

TEST_CASE("of 500 rules with a mistake, none that evaluation refutes is proved") {
  std::uint64_t seed = test::seed_of_run();
  std::vector<Rule> rules = rule_library();
  for (Rule& rule : derived_rules()) rules.push_back(std::move(rule));
  VerifyOptions quick;
  quick.seconds = 0.1;
  quick.instances = 6;
  int mutants = 0, proved = 0, equal = 0;
  RandomKey key = RandomKey(seed).with(0xbad);
  for (std::uint64_t draw = 0; mutants < kMutants; ++draw) {
    // Rules of the library at least as often as those on one operator's example.
    std::size_t among = random_below(key, 2 * draw, 2) == 0 ? rule_library().size() : rules.size();
    auto mutant = test::mutate(rules[random_below(key, 2 * draw + 1, among)], key.with(draw));
    if (!mutant) continue;
    ++mutants;
    Verification proof = prove(*mutant, quick);
    if (proof.verdict != Verdict::proved) continue;
    ++proved;
    VerifyOptions thorough;
    thorough.seed = seed + draw;
    thorough.instances = 40;
    Verification check = verify(*mutant, thorough);
    INFO("seed " << seed << ", draw " << draw << ": " << print(*mutant) << check.why);
    // Few instances show few signatures; the proof is for those, and nothing else is rewritten.
    bool proved_there = false;
    if (check.verdict == Verdict::refuted && check.counterexample) {
      Hash logical = signature_of(*mutant, *check.counterexample).logical;
      proved_there = std::ranges::binary_search(proof.record.signatures, logical);
    }
    CHECK_FALSE(proved_there);
    equal += check.verdict == Verdict::proved;
  }
  INFO("seed " << seed);
  CHECK(mutants == kMutants);
  CHECK(equal <= proved);
  WARN(fmt::format("seed {}: {} mutants, {} proved, of which {} are right by evaluation on 40 instances", seed, mutants,
                   proved, equal));
}

}  // namespace
}  // namespace unity
