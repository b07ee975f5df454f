// Derivations of one graph from another.
#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/rewrite/derivation.h"
#include "core/rewrite/rule_text.h"
#include "tests/support/rewrite_check.h"

namespace unity {
namespace {

const char* const kBasic = R"(
rule partition_of_relu
  partition(a, d, relu(x)) => relu(partition(a, d, x))

rule commute_partitions
  partition(b, e, partition(a, d, x)) => partition(a, d, partition(b, e, x))
  where a != b

rule partition_of_combine
  partition(a, d, combine(a, d, x)) => x

rule merge_partitions
  partition(a, e, partition(a, d, x)) => partition(a, d*e, x)

rule columns_of_matmul
  partition(1, d, matmul(x, w)) => matmul(replicate(d, x), partition(1, d, w))
  where rank(x) == 2

rule matmul_reduction
  matmul(x, w) => reduce(d, matmul(partition(1, d, x), partition(0, d, w)))
  where rank(x) == 2, divides(d, dim(x, 1))

rule merge_matmuls
  let y1 = matmul(x, w1), y2 = matmul(x, w2)
  (y1, y2) => split(rank(x) - 1, [dim(w1, 1), dim(w2, 1)], matmul(x, concat(1, w1, w2)))

rule split_of_concat
  let (y1, y2) = split(a, sizes, concat(a, x1, x2))
  (y1, y2) => (x1, x2)
  where sizes == [dim(x1, a), dim(x2, a)]

rule add_as_reduction
  add(x, y) => reduce(2, stack_partials(x, y))
)";

Pcg graph(const std::string& text) { return parse_pcg("pcg g { " + text + " }"); }

// Names of the rules that lead from one graph to the other, "<" before those used from right to left. Each graph on the
// way has the same function and the same layout of its outputs.
std::vector<std::string> path(const std::string& from, const std::string& to, int steps = 3) {
  Pcg start = graph(from), end = graph(to);
  std::vector<Rule> rules = parse_rules(kBasic);
  Derivation found = derive(start, end, rules, steps);
  std::vector<std::string> names;
  if (!found) return {std::string(to_string(found.outcome))};
  for (const AppliedRule& step : found.steps) {
    test::check_same_function(start, step.result);
    names.push_back((step.backward ? "<" : "") + rules[step.rule].name);
  }
  if (!found.steps.empty()) CHECK(canonical_hash(found.steps.back().result) == canonical_hash(end));
  return names;
}

using Names = std::vector<std::string>;

const std::string kX = "x = input([8, 4]) ";

TEST_CASE("equal graphs are derived in no step") {
  CHECK(path(kX + "return relu(x)", kX + "return relu(x)") == Names{});
  // Sharing and the order of commutative operands cost nothing.
  CHECK(path(kX + "y = input([8, 4]) return mul(relu(x), add(x, y))",
             kX + "y = input([8, 4]) return mul(add(y, x), relu(x))") == Names{});
  CHECK(path(kX + "return mul(relu(x), relu(x))", kX + "y = relu(x) return mul(y, y)") == Names{});
}

TEST_CASE("one step is found from left to right and from right to left") {
  CHECK(path(kX + "return partition(0, 2, relu(x))", kX + "return relu(partition(0, 2, x))") ==
        Names{"partition_of_relu"});
  CHECK(path(kX + "return relu(partition(0, 2, x))", kX + "return partition(0, 2, relu(x))") ==
        Names{"<partition_of_relu"});
}

TEST_CASE("two steps are found where none is enough") {
  std::string from = kX + "return partition(1, 2, partition(0, 2, relu(x)))";
  CHECK(path(from, kX + "return relu(partition(1, 2, partition(0, 2, x)))") ==
        Names{"partition_of_relu", "partition_of_relu"});
  CHECK(path(from, kX + "return relu(partition(1, 2, partition(0, 2, x)))", 1) == Names{"none"});
  // 4 = 2 * 2: the parameters that divide a partition are degrees that occur.
  CHECK(path(kX + "return relu(partition(0, 4, x))", kX + "return partition(0, 2, relu(partition(0, 2, x)))", 2) ==
        Names{"<merge_partitions", "<partition_of_relu"});
}

TEST_CASE("two multiplications in a row become Megatron's in three steps") {
  // Unity, Fig. 10: rows of the second weight, then the activation, then columns of the first.
  std::string leaves = "x = input([8, 4]) a = weight([4, 6]) b = weight([6, 8]) ";
  Names steps = path(leaves + "return matmul(relu(matmul(x, a)), b)",
                     leaves +
                         "return reduce(2, matmul(relu(matmul(replicate(2, x), partition(1, 2, a))), "
                         "partition(0, 2, b)))");
  CHECK(steps == Names{"matmul_reduction", "partition_of_relu", "columns_of_matmul"});
}

TEST_CASE("rules with several results find their places") {
  std::string leaves = "x = input([8, 4]) v = weight([4, 6]) w = weight([4, 2]) ";
  std::string merged = "(a, b) = split(1, [6, 2], matmul(x, concat(1, v, w))) ";
  CHECK(path(leaves + "return matmul(x, v), relu(matmul(x, w))", leaves + merged + "return a, relu(b)") ==
        Names{"merge_matmuls"});
  CHECK(path(leaves + merged + "return a, relu(b)", leaves + "return matmul(x, v), relu(matmul(x, w))") ==
        Names{"<merge_matmuls"});
  CHECK(path(leaves + "(a, b) = split(1, [6, 2], concat(1, matmul(x, v), matmul(x, w))) return a, b",
             leaves + merged + "return a, b") == Names{"split_of_concat", "merge_matmuls"});
}

TEST_CASE("leaves of different names, and layouts of results, are kept apart") {
  std::string leaves = "x = input([8, 4]) y = input([8, 4]) ";
  CHECK(path(leaves + "return add(relu(x), y)", leaves + "return add(relu(y), x)") == Names{"none"});
  CHECK(path(leaves + "return relu(x)", leaves + "return relu(partition(0, 2, x))") == Names{"none"});
}

TEST_CASE("a variable of a rule is opaque") {
  // Its source holds for any x in two parts, not only for one that was cut before: nothing may look into x.
  Rule rule = parse_rules("rule r combine(0, 2, x) => combine(0, 2, combine(1, 2, partition(1, 2, x)))").front();
  ParallelShape x{{{8, 2, 1}, {4, 1, 1}}, 1, 1, Monoid::sum, DType::f32};
  Instantiation instance = instantiate(rule, {x}, {});
  REQUIRE(instance.fault == InstanceFault::none);
  std::vector<Rule> inverse = parse_rules("rule combine_of_partition combine(a, d, partition(a, d, x)) => x");
  DerivationSearch search(inverse);
  CHECK(search.derive(instance.instance, 2).steps.size() == 1);
  // As a graph, combine(0, 2, partition(0, 2, leaf)) is the leaf.
  Pcg leaf = graph("x = input([8, 4]) return x");
  CHECK(search.derive(graph("x = input([8, 4]) return combine(0, 2, partition(0, 2, x))"), leaf, 1).steps.size() == 1);
  CHECK_FALSE(search.derive(instance.instance.source, leaf, 0));
  int state = search.state(instance.instance.source, instance.instance.variables);
  CHECK(search.neighbours(state).empty());
}

TEST_CASE("neighbours are the results of all single applications") {
  std::vector<Rule> rules = parse_rules(kBasic);
  DerivationSearch search(rules);
  // Of relu(partition(0, 2, x)): the partition moves out; nothing else matches. Of its neighbour: back again.
  int state = search.state(graph(kX + "return relu(partition(0, 2, x))"));
  auto neighbours = search.neighbours(state);
  REQUIRE(neighbours.size() == 1);
  CHECK(neighbours[0].backward);
  CHECK(neighbours[0].state == search.state(graph(kX + "return partition(0, 2, relu(x))")));
  CHECK(search.neighbours(neighbours[0].state).at(0).state == state);
}

TEST_CASE("a search that runs out of states says so") {
  std::vector<Rule> rules = parse_rules(kBasic);
  std::string from = kX + "return partition(1, 2, partition(0, 4, relu(relu(x))))";
  std::string to = kX + "return relu(relu(partition(0, 4, relu(partition(1, 2, x)))))";
  CHECK(derive(graph(from), graph(to), rules, 4).outcome == Derivation::Outcome::none);
  Derivation stopped = derive(graph(from), graph(to), rules, 4, {.states = 3});
  CHECK(stopped.outcome == Derivation::Outcome::gave_up);
  CHECK(stopped.why == "more than 3 graphs within 1 of 4 steps");
}

}  // namespace
}  // namespace unity
