#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/match.h"
#include "core/rewrite/rule_text.h"
#include "tests/support/rewrite_check.h"

namespace unity {
namespace {

Rule rule_of(const std::string& text) { return parse_rules("rule r " + text)[0]; }

std::string body(const Pcg& pcg) {
  std::string text = print(pcg), result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    if (std::size_t comment = line.find("  #"); comment != std::string::npos) line.resize(comment);
    result += line + "\n";
    at = end + 1;
  }
  return result;
}

TEST_CASE("matches are found at each place, in node order") {
  Pcg pcg = parse_pcg("pcg g { x = input([4, 4]) a = relu(x) b = relu(a) c = relu(b) return c }");
  std::vector<Match> matches = find_matches(pcg, rule_of("relu(relu(x)) => relu(x)"));
  REQUIRE(matches.size() == 2);
  CHECK(matches[0].root() == NodeId(2));  // relu(relu(x)) ends in b (node 2) and in c (node 3)
  CHECK(matches[0].values[0] == ValueRef{NodeId(0), 0});
  CHECK(matches[1].root() == NodeId(3));
  CHECK(matches[1].nodes == std::vector<NodeId>{NodeId(2), NodeId(3)});
}

TEST_CASE("a repeated variable must be the same value") {
  Pcg pcg = parse_pcg("pcg g { x = input([4]) y = input([4]) a = mul(x, x) b = mul(x, y) c = add(a, b) return c }");
  std::vector<Match> matches = find_matches(pcg, rule_of("mul(x, x) => mul(x, x)"));
  REQUIRE(matches.size() == 1);
  CHECK(pcg[matches[0].root()].name == "a");
}

TEST_CASE("commutative operators match with both operand orders") {
  Pcg pcg = parse_pcg(
      "pcg g { x = input([4]) y = input([4]) a = add(relu(x), y) b = add(x, relu(y)) c = mul(a, b) return c }");
  CHECK(find_matches(pcg, rule_of("add(relu(x), y) => add(y, relu(x))")).size() == 2);
  CHECK(find_matches(pcg, rule_of("add(x, y) => add(y, x)")).size() == 4);
}

TEST_CASE("interior results that are used elsewhere prevent a match, outputs of the rule do not") {
  Pcg pcg = parse_pcg("pcg g { x = input([4]) a = relu(x) b = gelu(a) c = tanh(a) return b, c }");
  CHECK(find_matches(pcg, rule_of("gelu(relu(x)) => gelu(relu(x))")).empty());
  CHECK(find_matches(pcg, rule_of("let a = relu(x) (a, gelu(a)) => (a, gelu(a))")).size() == 1);
  Pcg output = parse_pcg("pcg g { x = input([4]) a = relu(x) b = gelu(a) return b, a }");
  CHECK(find_matches(output, rule_of("gelu(relu(x)) => gelu(relu(x))")).empty());
}

TEST_CASE("optional attributes that a source leaves out must have their default") {
  Pcg pcg = parse_pcg(
      "pcg g { x = input([4, 4]) w = weight([4, 4]) a = matmul(x, w, activation=\"relu\") b = matmul(a, w) return b }");
  std::vector<Match> plain = find_matches(pcg, rule_of("matmul(x, w) => matmul(x, w)"));
  REQUIRE(plain.size() == 1);
  CHECK(pcg[plain[0].root()].name == "b");
  CHECK(find_matches(pcg, rule_of("matmul(x, w, activation=f) => matmul(x, w, activation=f)")).size() == 2);
}

TEST_CASE("conditions without parameters select matches, parameters are chosen among candidates") {
  Pcg pcg = parse_pcg("pcg g { x = input([4, 6]) w = weight([6, 8]) y = matmul(x, w) return y }");
  CHECK(find_matches(pcg, rule_of("matmul(x, w) => matmul(x, w) where rank(x) == 3")).empty());
  Rule rule = rule_of(
      "matmul(x, w) => reduce(d, matmul(partition(1, d, x), partition(0, d, w))) where divides(d, dim(x, 1)), d > 1");
  std::vector<Match> matches = find_matches(pcg, rule);
  REQUIRE(matches.size() == 1);
  // k is 6: of 1, 2, 3, 4, the divisors above 1 are 2 and 3.
  std::vector<Parameters> choices = parameter_choices(pcg, rule, matches[0], {1, 2, 3, 4});
  REQUIRE(choices.size() == 2);
  CHECK(choices[0].at("d") == 2);
  CHECK(choices[1].at("d") == 3);
  Pcg after = apply(pcg, rule, matches[0], choices[1]).value();
  CHECK(body(after) ==
        "pcg g {\n"
        "  x = input([4, 6])\n"
        "  w = weight([6, 8])\n"
        "  v2 @ 0 \"x\" = partition(1, 3, x)\n"
        "  v3 @ 1 \"w\" = partition(0, 3, w)\n"
        "  y @ 2 = matmul(v2, v3)\n"
        "  v5 @ 2 \"y\" = reduce(3, y)\n"
        "  return v5\n"
        "}\n");
  CHECK(apply(pcg, rule, matches[0], {{"d", 4}}).error().message ==
        "rule r: divides(d, dim(x, 1)) does not hold (found 4 and 6)");
  CHECK(apply(pcg, rule, matches[0], {}).error().message == "rule r: parameter 'd' has no value");
}

TEST_CASE("an ill-typed target is an error that names rule and operator") {
  Pcg pcg = parse_pcg("pcg g { x = input([4, 6]) y = relu(x) return y }");
  Rule rule = rule_of("relu(x) => reduce(2, relu(x))");
  CHECK(apply(pcg, rule, find_matches(pcg, rule)[0], {}).error().message ==
        "rule r: reduce: found partials 1 in f32[4, 6], expected a multiple of 2");
  Rule other = rule_of("relu(x) => reduce_sum([0], x)");
  CHECK(apply(pcg, other, find_matches(pcg, other)[0], {}).error().message.find("expected f32[4, 6]") !=
        std::string::npos);
}

TEST_CASE("a rule that would make the graph cyclic is refused") {
  // y2's weight depends on y1, so the merged product would depend on itself.
  Pcg pcg = parse_pcg("pcg g { x = input([4, 4]) w = weight([4, 4]) y1 = matmul(x, w) y2 = matmul(x, y1) return y2 }");
  Rule rule = rule_of(
      "let y1 = matmul(x, w1), y2 = matmul(x, w2) (y1, y2) => split(1, [dim(w1, 1), dim(w2, 1)], matmul(x, concat(1, "
      "w1, w2)))");
  std::vector<Match> matches = find_matches(pcg, rule);
  REQUIRE(matches.size() == 2);  // (y1, y2) and (y2, y1)
  for (const Match& match : matches)
    CHECK(apply(pcg, rule, match, {}).error().message == "rule r: the graph would become cyclic");
}

TEST_CASE("origins and labels pass to the operators of the same kind, others take those of the root") {
  Pcg pcg = parse_pcg(
      "pcg g { x = input([4, 4]) w = weight([4, 4]) product = matmul(x, w) activation = relu(product) return "
      "activation }");
  Rule fuse = rule_of("relu(matmul(x, w)) => matmul(x, w, activation=\"relu\")");
  Pcg fused = apply(pcg, fuse, find_matches(pcg, fuse)[0], {}).value();
  NodeId node = test::find_node(fused, "matmul");
  CHECK(fused[node].name == "product");
  CHECK(fused[node].origin == OriginId(2));
  Rule split = rule_of("matmul(x, w, activation=\"relu\") => relu(matmul(x, w))");
  Pcg again = apply(fused, split, find_matches(fused, split)[0], {}).value();
  CHECK(again[test::find_node(again, "relu")].origin == OriginId(2));
}

}  // namespace
}  // namespace unity
