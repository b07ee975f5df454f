// Every rule that search may use has a proof.
#include <cstdlib>
#include <string_view>

#include <catch2/catch.hpp>

#include "core/rewrite/derive.h"
#include "core/rewrite/library.h"
#include "core/rewrite/proof.h"
#include "core/verify/verify.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

// All hand-written ones, and a sample of those that were proved when they were generated; UNITY_TEST_RULES=all: every
// one.
TEST_CASE("rules of the library are proved again") {
  std::uint64_t seed = test::seed_of_run();
  const char* wanted = std::getenv("UNITY_TEST_RULES");
  bool all = wanted && std::string_view(wanted) == "all";
  int proved = 0;
  for (const RuleFile& file : rule_files()) {
    bool hand_written = file.name == "definitions" || file.name == "named";
    for (std::size_t r = 0; r < file.rules.size(); ++r) {
      RandomKey key = RandomKey(seed).with(hash_rule(file.rules[r]));
      if (!all && !hand_written && random_below(key, 0, 40) != 0) continue;
      Verification v = verify(file.rules[r]);
      INFO("seed " << seed << ": " << print(file.rules[r]) << to_string(v.verdict) << ": " << v.why);
      CHECK(v.verdict == Verdict::proved);
      ++proved;
    }
  }
  CHECK(proved > 60);
}

// The text of a derived rule is for one example; its ranks do not say how another reshape joins its dimensions.
TEST_CASE("every rule that is derived from an axis table is proved, but for those of reshape") {
  for (const Rule& rule : derived_rules()) {
    if (rule.name.ends_with("reshape_d0") || rule.name.ends_with("reshape_d1") || rule.name.ends_with("reshape_d2"))
      continue;
    Verification v = verify(rule);
    INFO(print(rule) << to_string(v.verdict) << ": " << v.why);
    CHECK(v.verdict == Verdict::proved);
  }
}

}  // namespace
}  // namespace unity
