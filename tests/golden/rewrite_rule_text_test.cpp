#include <algorithm>

#include <catch2/catch.hpp>

#include "core/rewrite/derive.h"
#include "core/rewrite/library.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

std::string message_of(const std::string& text) {
  try {
    parse_rules(text, "r.rules");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string printed(const std::string& text) {
  std::string all;
  for (const Rule& rule : parse_rules(text)) all += print(rule);
  return all;
}

TEST_CASE("rules in canonical layout print as they were written") {
  const std::string text =
      "rule matmul_reduction\n"
      "  matmul(x, w) => reduce(d, matmul(partition(1, d, x), partition(0, d, w)))\n"
      "  where divides(d, dim(x, 1)), rank(x) == 2\n"
      "rule merge\n"
      "  let y1 = matmul(x, w1), y2 = matmul(x, w2)\n"
      "  (y1, y2) => split(rank(x) - 1, [dim(w1, 1), dim(w2, 1)], matmul(x, concat(1, w1, w2)))\n"
      "  where degree(x, 0)*2 < (copies(x) + 1)*partials(x), 7 != 2 - (3 - 1)\n"
      "rule unmerge\n"
      "  let (y1, y2) = split(a, sizes, x, groups=g)\n"
      "  (y2, relu(y1)) => (y2, gelu(x))\n"
      "rule fuse\n"
      "  relu(matmul(x, w)) => matmul(x, w, activation=\"relu\")\n";
  CHECK(printed(text) == text);
}

TEST_CASE("every rule of the library and every derived rule prints and parses to the same text") {
  std::vector<Rule> rules = rule_library();
  for (const Rule& rule : derived_rules()) rules.push_back(rule);
  CHECK(rules.size() > 100);
  for (const Rule& rule : rules) {
    INFO(rule.name);
    CHECK(printed(print(rule)) == print(rule));
  }
}

TEST_CASE("derived rules of the matrix product read as in textbooks") {
  std::string text;
  for (const Rule& rule : derived_rules())
    if (rule.nodes[0].op->name() == "matmul" && rule.name.starts_with("shard_matmul") &&
        rule.nodes[0].inputs.size() == 2)
      text += print(rule);
  CHECK(
      text ==
      "rule shard_matmul_m\n"
      "  matmul(x1, x2) => combine(0, d, matmul(partition(0, d, x1), replicate(d, x2)))\n"
      "  where rank(x1) == 2, rank(x2) == 2, divides(d, dim(x1, 0))\n"
      "rule shard_matmul_n\n"
      "  matmul(x1, x2) => combine(1, d, matmul(replicate(d, x1), partition(1, d, x2)))\n"
      "  where rank(x1) == 2, rank(x2) == 2, divides(d, dim(x2, 1))\n"
      "rule shard_matmul_k\n"
      "  matmul(x1, x2) => reduce(d, matmul(partition(1, d, x1), partition(0, d, x2)))\n"
      "  where rank(x1) == 2, rank(x2) == 2, divides(d, dim(x1, 1))\n"
      "rule shard_matmul_b0\n"
      "  matmul(x1, x2, transpose_w=1) => combine(0, d, matmul(partition(0, d, x1), replicate(d, x2), transpose_w=1))\n"
      "  where rank(x1) == 3, rank(x2) == 2, divides(d, dim(x1, 0))\n");
}

TEST_CASE("a rule knows its parameters") {
  Rule rule = parse_rules("rule r combine(a, d, x) => combine(a, d / e, combine(a, e, x)) where divides(e, d)")[0];
  REQUIRE(rule.parameters.size() == 1);
  CHECK(rule.attributes[static_cast<std::size_t>(rule.parameters[0])] == "e");
  CHECK_FALSE(rule.algebraic());
  CHECK(parse_rules("rule r relu(reduce(1, x)) => relu(x)")[0].algebraic());
}

TEST_CASE("wrong rules are refused with place, found and expected") {
  CHECK(message_of("rule r\n  relux(x) => x") == "r.rules:2:3: unknown operator 'relux' (did you mean 'relu'?)");
  CHECK(message_of("rule r relu(x) => relu(z)") == "r.rules:1:24: unbound name 'z' (did you mean 'x'?)");
  CHECK(message_of("rule r relu(x) => relu(x) where divides(d, dim(x, 0))") == "r.rules:1:41: unbound name 'd'");
  CHECK(message_of("rule r relu(x) => relu(x) where rank(y) == 2") ==
        "r.rules:1:38: unbound name 'y' (did you mean 'x'?)");
  CHECK(message_of("rule r matmul(x) => x") == "r.rules:1:8: matmul: found 1 operands, expected 2");
  CHECK(message_of("rule r replicate(x) => x") == "r.rules:1:8: replicate: found 0 operands, expected 1");
  CHECK(message_of("rule r partition(0) => x") == "r.rules:1:8: partition: attribute 'degree' is missing");
  CHECK(message_of("rule r x => relu(x)") == "r.rules:1:8: the source is a variable, expected a call of an operator");
  CHECK(message_of("rule r (relu(x), gelu(x)) => x") == "r.rules:1:30: found 1 results, expected 2 as in the source");
  CHECK(message_of("rule r let y = relu(x) gelu(x) => gelu(x)") == "r.rules:1:16: relu is on neither side of rule r");
  CHECK(message_of("rule r weight([2]) => weight([2])") ==
        "r.rules:1:8: weight is a leaf, expected an operator with operands (rules never replace leaves)");
  CHECK(message_of("rule r relu(x) => matmul(x, x, activatoin=\"relu\")") ==
        "r.rules:1:32: matmul: unknown attribute 'activatoin' (did you mean 'activation'?)");
  CHECK(message_of("rule r replicate(2*d, x) => x") ==
        "r.rules:1:20: 'd' occurs in the source only inside an expression, expected it alone somewhere");
  CHECK(message_of("rule r replicate(d, d) => d") == "r.rules:1:21: 'd' is an attribute, expected a value");
  CHECK(message_of("rule r relu(x) = x") == "r.rules:1:16: found '=', expected '=>'");
  CHECK(message_of("rule r relu(x) => x rule r relu(x) => x") == "r.rules:1:26: rule 'r' is defined twice");
  CHECK(message_of("rule r let y = relu(x) y => gelu(x) where dim(z, 0) == 1") ==
        "r.rules:1:47: unbound name 'z' (did you mean 'x'?)");
}

TEST_CASE("rules of any depth are refused, not followed to the end of the stack") {
  auto times = [](const std::string& part) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += part;
    return text;
  };
  CHECK(message_of("rule r " + times("relu(") + "x => x").ends_with("calls nest deeper than 200"));
  CHECK(
      message_of("rule r scale(c, x) => scale(" + times("(") + "c, x)").ends_with("expressions nest deeper than 200"));
  CHECK(
      message_of("rule r scale(c, x) => scale(" + times("[") + "c, x)").ends_with("expressions nest deeper than 200"));
  CHECK(message_of("rule r scale(c, x) => scale(" + times("c + ") + "c, x)")
            .ends_with("found more than 500 arithmetic operations in a rule"));
}

TEST_CASE("damaged rule files are refused as input errors, or are rules that print and parse") {
  std::string text;
  for (const RuleFile& file : rule_files())
    for (std::size_t r = 0; r < file.rules.size(); r += file.name == "definitions" || file.name == "named" ? 1 : 50)
      text += print(file.rules[r]);
  int refused = 0;
  std::size_t step = std::max<std::size_t>(3, text.size() / 900);
  for (std::size_t at = 0; at < text.size(); at += step) {
    std::string cut = text.substr(0, at), without = cut + text.substr(at + 1), swapped = text;
    std::swap(swapped[at], swapped[(at * 7 + 1) % text.size()]);
    for (const std::string& damaged : {cut, without, swapped}) {
      try {
        std::string once = printed(damaged);
        if (once != printed(once)) FAIL("prints otherwise when parsed again: " << once);
      } catch (const InputError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 1000);
}

}  // namespace
}  // namespace unity
