// Rule files of the user's: what is wrong in them, and where.
#include <catch2/catch.hpp>

#include "core/rewrite/rule_text.h"
#include "core/verify/verify.h"

namespace unity {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_rules("rule r\n  " + text + "\n", "my.rules");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a malformed rule is refused with line, column and reason") {
  CHECK(error_of("relu(x) => relu(y)") == "my.rules:2:19: unbound name 'y' (did you mean 'x'?)");
  CHECK(error_of("relu(x) => x\n  where dim(y, 0) == 1") == "my.rules:3:13: unbound name 'y' (did you mean 'x'?)");
  CHECK(error_of("partition(a, d, x) => x\n  where e > 1") == "my.rules:3:9: unbound name 'e' (did you mean 'a'?)");
  CHECK(error_of("relu(x) => relu(x, x)") == "my.rules:2:14: relu: found 2 operands, expected 1");
  CHECK(error_of("relu(x) => rellu(x)") == "my.rules:2:14: unknown operator 'rellu' (did you mean 'relu'?)");
  CHECK(error_of("relu(x) => relu(x") == "my.rules:3:1: found the end of the text, expected ','");
  CHECK(error_of("weight([2]) => x") ==
        "my.rules:2:3: weight is a leaf, expected an operator with operands (rules never replace leaves)");
  CHECK(error_of("(relu(x), relu(y)) => (x, y, x)") == "my.rules:2:25: found 3 results, expected 2 as in the source");
  CHECK(error_of("relu(x) => relu(x)\nrule r relu(x) => x") == "my.rules:3:6: rule 'r' is defined twice");
}

TEST_CASE("a rule with a side that is never well-typed is told from a wrong one") {
  auto verdict = [](const std::string& text) { return verify(parse_rules("rule r " + text).front()); };
  Verification found = verdict("reduce(2, replicate(2, x)) => x");
  CHECK(found.verdict == Verdict::ill_typed);
  CHECK_THAT(found.why, Catch::Matchers::Contains("source") && Catch::Matchers::Contains("reduce: found partials 1"));
  found = verdict("relu(x) => relu(stack_partials(x, x))");
  CHECK(found.verdict == Verdict::ill_typed);
  CHECK_THAT(found.why, Catch::Matchers::Contains("target") &&
                            Catch::Matchers::Contains("relu: operand 0 holds partial sums (partials 2)"));
  CHECK(verdict("relu(x) => x").verdict == Verdict::refuted);
}

}  // namespace
}  // namespace unity
