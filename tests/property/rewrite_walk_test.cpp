// Random sequences of all kinds of rewriting.
#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/library.h"
#include "core/rewrite/normalize.h"
#include "tests/support/dice.h"
#include "tests/support/rewrite_check.h"

namespace unity {
namespace {

using test::Dice;

// One random rewriting; an error when it does not apply.
Result<Pcg> step(const Pcg& pcg, Dice& dice) {
  int degree = dice.below(3) == 0 ? 3 : 2;
  NodeId node(static_cast<std::int64_t>(dice.below(pcg.size())));
  switch (dice.below(6)) {
    case 0: {
      std::vector<AxisClass> classes = axis_classes(pcg);
      return shard_class(pcg, classes[dice.below(classes.size())], degree);
    }
    case 1:
      return apply_replicate_everywhere(pcg, degree);
    case 2:
      return pcg[node].table && !pcg[node].table->axes.empty()
                 ? apply_shard(pcg, node, static_cast<int>(dice.below(pcg[node].table->axes.size())), degree)
                 : fail("no axes");
    case 3:
      return pcg[node].table && !pcg[node].table->axes.empty()
                 ? apply_spread(pcg, node, static_cast<int>(dice.below(pcg[node].table->axes.size())), degree)
                 : fail("no axes");
    case 4:
      return pcg[node].inputs.empty()
                 ? fail("a leaf")
                 : apply_reduce(pcg, node, static_cast<int>(dice.below(pcg[node].inputs.size())), degree);
    default:
      break;
  }
  const Rule& rule = rule_library()[dice.below(rule_library().size())];
  std::vector<Match> matches = find_matches(pcg, rule);
  if (matches.empty()) return fail("no match");
  const Match& match = matches[dice.below(matches.size())];
  std::vector<Parameters> choices = parameter_choices(pcg, rule, match, {2, 3});
  if (choices.empty()) return fail("no parameters");
  return apply(pcg, rule, match, choices[dice.below(choices.size())]);
}

// Walks of up to 12 rewritings; every fourth graph on the way, and the last, is evaluated.
int walk(const Pcg& start, std::uint64_t seed) {
  INFO("seed " << seed);
  Dice dice(seed);
  Pcg pcg = start;
  int applied = 0;
  for (int tries = 0; tries < 60 && applied < 12; ++tries) {
    auto next = step(pcg, dice);
    if (!next.ok()) continue;
    pcg = std::move(*next);
    ++applied;
    Pcg normal = normalize(pcg);
    CHECK(canonical_hash(normalize(normal)) == canonical_hash(normal));
    if (applied % 4 == 0) test::check_same_function(start, normal, seed);
  }
  test::check_same_function(start, pcg, seed);
  return applied;
}

TEST_CASE("random sequences of rewritings keep the function of a branching graph") {
  Pcg pcg = parse_pcg(
      "pcg branching {\n"
      "x = input([12, 6]) labels = input([12], dtype=\"i32\")\n"
      "w1 = weight([6, 12]) w2 = weight([6, 12]) w3 = weight([12, 6]) gamma = weight([12]) beta = weight([12])\n"
      "a = matmul(x, w1) b = relu(matmul(x, w2)) c = mul(tanh(a), b) d = layer_norm(add(c, a), gamma, beta)\n"
      "e = matmul(gelu(d), w3) f = add(e, x) logits = scale(0.5, f) return cross_entropy(logits, labels), logits }");
  int applied = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) applied += walk(pcg, seed);
  CHECK(applied > 200);
}

TEST_CASE("random sequences of rewritings keep the function of a transformer") {
  Pcg pcg = build_model({"bert-tiny", {{"layers", 1}}});
  int applied = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) applied += walk(pcg, seed);
  CHECK(applied > 20);
}

}  // namespace
}  // namespace unity
