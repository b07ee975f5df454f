// Real numbers in rules.
#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

// The text of the first match's result; "no match" without one.
std::string rewritten(const std::string& rule_text, const std::string& graph) {
  Rule rule = parse_rules("rule r " + rule_text)[0];
  CHECK(print(parse_rules(print(rule))[0]) == print(rule));
  Pcg pcg = parse_pcg("pcg g { x = input([4]) return " + graph + " }");
  auto matches = find_matches(pcg, rule);
  if (matches.empty()) return "no match";
  Pcg after = apply(pcg, rule, matches[0], {}).value();
  const Node& last = after[after.outputs()[0].node];
  return last.attributes.empty() ? last.op->name() : last.op->name() + " " + to_string(last.attributes[0]);
}

}  // namespace

TEST_CASE("near tells apart what rounding to single precision does not") {
  const std::string rule = "scale(f, relu(x)) => relu(x) where near(f, 0.7071067811865476)";
  CHECK(rewritten(rule, "scale(0.7071067811865476, relu(x))") == "relu");
  CHECK(rewritten(rule, "scale(0.7071067690849304, relu(x))") == "relu");  // the nearest float, 2e-8 away
  CHECK(rewritten(rule, "scale(0.70711, relu(x))") == "no match");
  CHECK(rewritten(rule, "scale(-0.7071067811865476, relu(x))") == "no match");
  CHECK(rewritten("scale(f, x) => relu(x) where near(f, 0)", "scale(0.0, x)") == "relu");
}

TEST_CASE("arithmetic with a real is real, and between integers stays whole") {
  CHECK(rewritten("scale(f, scale(g, x)) => scale(f*g, x)", "scale(0.5, scale(3.0, x))") == "scale 1.5");
  CHECK(rewritten("scale(f, x) => scale(f / 2 + 1 - 0.25, x)", "scale(3.0, x)") == "scale 2.25");
  CHECK(rewritten("reshape(s, relu(x)) => reshape([7 / 2 + 1], relu(x))", "reshape([4], relu(x))") == "reshape [4]");
}

TEST_CASE("a whole number stands for a real one where an operator has real numbers") {
  CHECK(rewritten("scale(2, scale(3, x)) => scale(6, x)", "scale(2.0, scale(3.0, x))") == "scale 6.0");
  CHECK(rewritten("scale(2, scale(3, x)) => scale(6, x)", "scale(2.0, scale(3.5, x))") == "no match");
  CHECK(rewritten("scale(1 + 1, x) => relu(x)", "scale(2.0, x)") == "relu");
  CHECK(print(parse_rules("rule r scale(2, x) => scale(2, x)")[0]) ==
        print(parse_rules("rule r scale(2.0, x) => scale(2.0, x)")[0]));
}

TEST_CASE("conditions compare whole and real numbers by value") {
  CHECK(rewritten("scale(f, x) => relu(x) where f == 1", "scale(1.0, x)") == "relu");
  CHECK(rewritten("scale(f, x) => relu(x) where f == 1", "scale(1.5, x)") == "no match");
  CHECK(rewritten("scale(f, x) => relu(x) where f != 0", "scale(0.0, x)") == "no match");
  CHECK(rewritten("scale(f, x) => relu(x) where f < 1.0", "scale(0.5, x)") == "relu");
  CHECK(rewritten("scale(f, x) => relu(x) where f < 1", "scale(1.5, x)") == "no match");
  CHECK(rewritten("scale(f, x) => relu(x) where f >= 1, f <= 2", "scale(1.5, x)") == "relu");
  CHECK(rewritten("scale(f, x) => relu(x) where f > 2", "scale(2.5, x)") == "relu");
}

TEST_CASE("texts are no numbers") {
  Rule rule = parse_rules("rule r matmul(x, w, activation=a) => matmul(x, w) where near(a, 1)")[0];
  Pcg pcg = parse_pcg("pcg g { x = input([2, 2]) w = weight([2, 2]) return matmul(x, w, activation=\"relu\") }");
  CHECK(find_matches(pcg, rule).empty());
}

}  // namespace unity
