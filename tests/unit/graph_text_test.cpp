#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/graph/builder.h"
#include "core/graph/lexer.h"
#include "core/graph/text.h"
#include "tests/support/paths.h"

using namespace unity;

namespace {

constexpr const char* kMegatron = R"(pcg megatron {
  x = replicate(2, input([64, 784]))
  w1 @ 40 = weight([784, 512], init="normal", scale=0.05)
  h = matmul(x, partition(1, 2, w1), activation="relu")
  return reduce(2, matmul(h, partition(0, 2, weight([512, 10]))))
})";

std::string error_of(const std::string& text) {
  try {
    parse_pcg(text, "g.pcg");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

void check_same(const Pcg& a, const Pcg& b) {
  CHECK(canonical_hash(a) == canonical_hash(b));
  CHECK(a.name() == b.name());
  CHECK(a.outputs() == b.outputs());
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Node &x = a.nodes()[i], &y = b.nodes()[i];
    CHECK((x.op == y.op && x.attributes == y.attributes && x.inputs == y.inputs && x.outputs == y.outputs));
    CHECK(x.name == y.name);
    CHECK(x.origin == y.origin);
  }
}

}  // namespace

TEST_CASE("a parallel graph prints one node a line with its parallel shape") {
  CHECK(print(parse_pcg(kMegatron)) == read_file(UNITY_SOURCE_DIR "/tests/golden/graph_megatron.pcg"));
}

TEST_CASE("what is printed parses back to the same graph, labels and origins included") {
  check_same(parse_pcg(kMegatron), parse_pcg(print(parse_pcg(kMegatron))));
}

TEST_CASE("labels that are no names, are repeated, empty or keywords survive printing") {
  Pcg pcg;
  pcg.set_name("two words");
  NodeId x = pcg.try_add(get_operator("input"), {Dims{2}}, {}, OriginId(9), "the \"x\"\\\n").value();
  NodeId a = pcg.try_add(get_operator("relu"), {}, {{x, 0}}, OriginId(), "return").value();
  NodeId b = pcg.try_add(get_operator("relu"), {}, {{a, 0}}, OriginId(2), "v1").value();
  NodeId c = pcg.try_add(get_operator("relu"), {}, {{b, 0}}, OriginId(0), "v1").value();
  NodeId d = pcg.try_add(get_operator("relu"), {}, {{c, 0}}, OriginId(0), "").value();
  pcg.set_outputs({{d, 0}, {b, 0}});
  check_same(pcg, parse_pcg(print(pcg)));
}

TEST_CASE("errors in the text form say where, what was found and what was expected") {
  CHECK(error_of("pcg g {\n  y = relux(x)\n") == "g.pcg:2:7: unknown operator 'relux' (did you mean 'relu'?)");
  CHECK(error_of("pcg g {\n  y = relu(x)\n") == "g.pcg:2:12: unknown value 'x'");
  CHECK(error_of("pcg g {\n  input1 = input([2])\n  return imput1\n}") ==
        "g.pcg:3:10: unknown value 'imput1' (did you mean 'input1'?)");
  CHECK(error_of("pcg g {") == "g.pcg:1:8: found the end of the text, expected the name of a value or 'return'");
  CHECK(error_of("pcg g { x = input([2) }") == "g.pcg:1:21: found ')', expected ']'");
  CHECK(error_of("pcg g { x = input([2], kind=\"f32\") }") ==
        "g.pcg:1:24: input: unknown attribute 'kind' (known: shape, dtype)");
  CHECK(error_of("pcg g { x = input() return x }") == "g.pcg:1:13: input: attribute 'shape' is missing");
  CHECK(error_of("pcg g { x = input([2]) x = relu(x) return x }") == "g.pcg:1:24: 'x' is defined twice");
  CHECK(error_of("pcg g { (x, y) = input([2]) return x }") ==
        "g.pcg:1:10: input: found names for 2 results, expected 1");
  CHECK(error_of("pcg g { x = input([2]) return x } z") == "g.pcg:1:35: found 'z', expected the end of the text");
}

TEST_CASE("a type error in the text form carries the operator's own message") {
  CHECK(error_of("pcg g {\n  y = matmul(input([4, 6]), weight([5, 8]))\n  return y\n}") ==
        "g.pcg:2:7: matmul: axis k is 6 in x but 5 in w");
}

TEST_CASE("text nested without end is refused") {
  std::string deep = "pcg g { y = ";
  for (int i = 0; i < 5000; ++i) deep += "relu(";
  CHECK(error_of(deep).find("calls nest deeper than 200") != std::string::npos);
}

TEST_CASE("tokens know their kind and place") {
  TokenStream t("a.b => -1.5e-3 # comment\n  \"q\\\"\" 12", "f");
  CHECK(t.next().text == "a.b");
  CHECK(t.next().text == "=>");
  CHECK(t.accept("-"));
  CHECK(t.next().real == 1.5e-3);
  Token q = t.next();
  CHECK((q.kind == TokenKind::text && q.text == "q\"" && q.line == 2 && q.column == 3 && q.first_of_line));
  CHECK(t.next().integer == 12);
  CHECK(t.at_end());
}

TEST_CASE("damaged text is refused or parsed, never worse") {
  constexpr std::uint64_t kSeed = 20;
  const std::string alphabet = "()[]{}=,@#\"-.0129axw \n\x01\xff";
  int refused = 0;
  for (std::uint64_t trial = 0; trial < 3000; ++trial) {
    RandomKey key = RandomKey(kSeed).with(trial);
    std::string text = kMegatron;
    for (std::uint64_t i = 0, n = 1 + random_below(key, 0, 4); i < n; ++i) {
      std::size_t at = random_below(key, 3 * i + 1, text.size());
      char c = alphabet[random_below(key, 3 * i + 2, alphabet.size())];
      if (random_below(key, 3 * i + 3, 3) == 0)
        text.erase(at, random_below(key, i + 50, 20));
      else
        text[at] = c;
    }
    INFO("seed " << kSeed << " trial " << trial << "\n" << text);
    try {
      Pcg pcg = parse_pcg(text);
      CHECK(canonical_hash(parse_pcg(print(pcg))) == canonical_hash(pcg));
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).starts_with("<pcg>:"));
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
