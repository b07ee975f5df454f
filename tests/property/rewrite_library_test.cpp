// Every rule of the library on graphs in which it occurs.
#include <set>

#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/library.h"
#include "core/rewrite/normalize.h"
#include "tests/support/rewrite_check.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

const std::vector<std::string> kGraphs = {
    // Fusion, merging and unmerging, in three ranks.
    "x = input([8, 4]) w1 = weight([4, 6]) w2 = weight([4, 2]) a = matmul(x, w1) b = matmul(x, w2) return relu(a), b",
    "x = input([2, 8, 4]) w1 = weight([4, 6]) w2 = weight([4, 2])\n"
    "a = matmul(x, w1, activation=\"relu\") b = matmul(x, w2, activation=\"relu\") return a, b",
    "x = input([8, 4]) w1 = weight([4, 6]) w2 = weight([4, 2])\n"
    "(a, b) = split(1, [6, 2], matmul(x, concat(1, w1, w2, groups=2)), groups=2) return a, b",
    "x = input([8, 4]) w = weight([6, 4]) return relu(matmul(x, w, transpose_w=1))",
    "x = input([3, 8, 4]) y = input([3, 8, 2]) w = weight([6, 5]) return matmul(concat(2, x, y), w)",
    // Sums.
    "x = input([8]) y = input([8]) return add(x, relu(y))",
    "x = input([8]) y = input([8]) return reduce(2, stack_partials(x, relu(y)))",
    // Movement and scaling.
    "x = input([4, 6]) return reshape([3, 8], reshape([24], relu(x)))",
    "x = input([4, 6]) y = input([4, 2]) (a, b) = split(1, [6, 2], concat(1, relu(x), y)) return a, b",
    "x = input([8, 4]) w = weight([4, 6]) return scale(2.0, matmul(x, w))",
    "x = input([8, 4]) w = weight([4, 6]) return matmul(scale(2.0, x), w)",
    "x = input([2, 3, 4]) y = input([2, 5, 4]) return scale(2.0, batch_matmul(x, y, transpose_b=1))",
    "x = input([2, 3, 4]) y = input([2, 5, 4]) return batch_matmul(scale(2.0, x), y, transpose_b=1)",
    // Parallelization: inverses, compositions, commutations.
    "x = input([8, 12]) return combine(0, 2, partition(0, 2, x))",
    "x = input([8, 12]) return combine(0, 4, partition(0, 2, combine(0, 2, partition(0, 4, x))))",
    "x = input([8, 12]) return batch(0, 4, pipeline(0, 4, x))",
    "x = input([8, 12]) return partition(0, 1, combine(0, 1, replicate(1, reduce(1, x))))",
    "x = input([8, 12]) return combine(0, 2, combine(0, 4, partition(0, 2, partition(0, 4, x))))",
    "x = input([8, 12]) return replicate(2, replicate(4, x))",
    "x = input([8, 12]) return combine(1, 3, combine(0, 4, partition(1, 3, partition(0, 4, x))))",
    "x = input([8, 12]) return combine(1, 3, partition(1, 3, combine(0, 4, partition(0, 4, x))))",
    "x = input([8, 12]) return combine(1, 3, combine(0, 2, partition(0, 2, partition(1, 3, x))))",
    "x = input([8, 12]) return combine(0, 2, combine(1, 3, partition(0, 2, partition(1, 3, x))))",
    "x = input([8, 12]) return combine(0, 2, partition(1, 3, combine(1, 3, partition(0, 2, partition(1, 3, x)))))",
    "x = input([8, 12]) return combine(0, 2, replicate(3, partition(0, 2, x)))",
    "x = input([8, 12]) return combine(0, 2, partition(0, 2, replicate(3, x)))",
    "x = input([8, 12]) return replicate(3, combine(0, 2, partition(0, 2, x)))",
    "x = input([8, 12]) y = input([8, 12]) s = stack_partials(x, y) return combine(0, 2, partition(0, 2, reduce(2, "
    "s)))",
    "x = input([8, 12]) y = input([8, 12]) s = stack_partials(x, y) return combine(0, 2, reduce(2, partition(0, 2, "
    "s)))",
    "x = input([8, 12]) y = input([8, 12]) s = stack_partials(x, y) return reduce(2, combine(0, 2, partition(0, 2, "
    "s)))",
    "x = input([8, 12]) y = input([8, 12]) z = input([8, 12]) u = input([8, 12])\n"
    "return reduce(2, reduce(2, stack_partials(x, y, z, u)))",
    // Fusion of images' layers and of attention.
    "x = input([2, 4, 5, 5]) w = weight([6, 2, 3, 3])\n"
    "return relu(conv2d(x, w, stride=[2, 1], padding=[1, 0, 1, 0], groups=2))",
    "x = input([2, 4, 5, 5]) w = weight([6, 4, 3, 3]) return conv2d(x, w, dilation=[2, 2], activation=\"relu\")",
    "x = input([2, 4, 3, 3]) m = input([4]) v = input([4]) g = weight([4]) b = weight([4])\n"
    "return relu(batch_norm(x, m, v, g, b, epsilon=2.0))",
    "q = input([2, 3, 4]) k = input([2, 5, 4]) v = input([2, 5, 6])\n"
    "return batch_matmul(softmax(scale(0.5, batch_matmul(q, k, transpose_b=1))), v)",
    "q = input([2, 3, 4]) k = input([2, 5, 4]) v = input([2, 5, 6]) return attention(0.5, q, k, v)",
    "q = input([2, 4, 4]) k = input([2, 5, 4]) v = input([2, 5, 6])\n"
    "return batch_matmul(causal_softmax(scale(0.5, batch_matmul(q, k, transpose_b=1))), v)",
    "q = input([2, 4, 4]) k = input([2, 5, 4]) v = input([2, 5, 6]) return attention(0.5, q, k, v, causal=1)",
};

// Same outputs for the same leaves (exactly, or in real numbers where the rule is an identity of real functions), and
// the same parallel shapes.
void check_kept(const Pcg& before, const Pcg& after) {
  INFO("before: " << print(before) << "after: " << print(after));
  CHECK(check_well_formed(after).ok());
  RuleInstance both;
  both.source = before, both.target = after;
  CHECK(compare_sides(both, 7) != Agreement::none);
  for (std::size_t o = 0; o < before.outputs().size(); ++o)
    CHECK(after.shape(after.outputs()[o]) == before.shape(before.outputs()[o]));
}

// Applies the rule wherever it matches; returns how often.
int apply_everywhere(const MatchIndex& index, const Rule& rule) {
  int applied = 0;
  for (const Match& match : find_matches(index, rule))
    for (const Parameters& parameters : parameter_choices(index.pcg, rule, match, {2, 3, 4})) {
      auto after = apply(index.pcg, rule, match, parameters);
      if (!after.ok()) continue;
      INFO(print(rule));
      check_kept(index.pcg, *after);
      test::check_same_function(*after, normalize(*after));
      ++applied;
    }
  return applied;
}

TEST_CASE("every rule of the library keeps function and shapes wherever it matches in graphs at hand") {
  for (const std::string& text : kGraphs) {
    Pcg pcg = parse_pcg("pcg g { " + text + " }");
    MatchIndex index(pcg);
    int applied = 0;
    for (const Rule& rule : rule_library()) applied += apply_everywhere(index, rule);
    CHECK(applied > 0);
  }
}

TEST_CASE("every rule of the library is applied at instances of its own, and keeps function and shapes") {
  for (const Rule& rule : rule_library()) {
    InstanceSampler sampler(rule, {test::seed_of_run()});
    int applied = 0;
    for (int tries = 0; applied < 2 && tries < 400; ++tries) {
      auto sample = sampler.next();
      REQUIRE(sample);
      if (sample->fault != InstanceFault::none) continue;
      applied += apply_everywhere(MatchIndex(sample->instance.source), rule) > 0;
    }
    INFO("seed " << test::seed_of_run() << ": " << print(rule) << "was never applied");
    CHECK(applied > 0);
  }
}

TEST_CASE("fusion and merging undo each other") {
  auto rule_named = [](const std::string& name) {
    for (const Rule& rule : rule_library())
      if (rule.name == name) return rule;
    throw InternalError("there is no rule " + name);
  };
  for (auto [text, forth, back] : {std::array<std::string, 3>{kGraphs[0], "fuse_matmul_relu", "unfuse_matmul_relu"},
                                   std::array<std::string, 3>{kGraphs[1], "merge_matmuls", "unmerge_matmuls"},
                                   std::array<std::string, 3>{kGraphs[5], "add_as_reduction", "reduction_as_add"}}) {
    Pcg pcg = parse_pcg("pcg g { " + text + " }");
    Rule rule = rule_named(forth), inverse = rule_named(back);
    Pcg there = apply(pcg, rule, find_matches(pcg, rule).at(0), {}).value();
    CHECK(canonical_hash(there) != canonical_hash(pcg));
    Pcg again = apply(there, inverse, find_matches(there, inverse).at(0), {}).value();
    CHECK(canonical_hash(again) == canonical_hash(pcg));
  }
}

TEST_CASE("merged by groups, two products keep their split by columns") {
  Pcg pcg = parse_pcg(
      "pcg g { x = input([8, 4]) w1 = weight([4, 6]) w2 = weight([4, 2]) p = replicate(2, x)\n"
      "a = matmul(p, partition(1, 2, w1)) b = matmul(p, partition(1, 2, w2)) return combine(1, 2, a), combine(1, 2, b) "
      "}");
  for (const Rule& rule : rule_library()) {
    if (rule.name != "merge_matmuls" && rule.name != "merge_matmuls_by_groups") continue;
    Match match = find_matches(pcg, rule).at(0);
    auto merged = apply(pcg, rule, match, rule.parameters.empty() ? Parameters{} : Parameters{{"g", 2}});
    // Without groups, joining the columns needs them whole: ill-typed while they are split.
    CHECK(merged.ok() == (rule.name == "merge_matmuls_by_groups"));
    if (!merged.ok()) continue;
    test::check_same_function(pcg, *merged);
    CHECK(node_sharding(*merged, test::find_node(*merged, "matmul")).tasks() == 2);
  }
}

}  // namespace
}  // namespace unity
