// Every rule that search may use has a proof.
#include <catch2/catch.hpp>

#include "core/rewrite/derive.h"
#include "core/rewrite/library.h"
#include "core/verify/verify.h"

namespace unity {
namespace {

TEST_CASE("every rule of the library is proved") {
  for (const Rule& rule : rule_library()) {
    Verification v = verify(rule);
    INFO(print(rule) << to_string(v.verdict) << ": " << v.why);
    CHECK(v.verdict == Verdict::proved);
  }
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
