#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/rewrite/normalize.h"
#include "tests/support/rewrite_check.h"

namespace unity {
namespace {

// Parallelization operators of the normal form, as one line: "combine(0, 2); replicate(3)".
std::string normal_chain(const std::string& pcg_text) {
  Pcg before = parse_pcg(pcg_text), after = normalize(before);
  test::check_same_function(before, after);
  CHECK(print(normalize(after)) == print(after));
  std::string chain;
  for (const Node& node : after.nodes()) {
    if (!node.is_parallelization()) continue;
    std::vector<std::string> attributes;
    for (const AttributeValue& a : node.attributes) attributes.push_back(to_string(a));
    chain += fmt::format("{}{}({})", chain.empty() ? "" : "; ", node.op->name(), fmt::join(attributes, ", "));
  }
  return chain;
}

TEST_CASE("inverse pairs vanish") {
  CHECK(normal_chain("pcg g { x = input([8]) return relu(combine(0, 2, partition(0, 2, x))) }").empty());
}

TEST_CASE("a chain is reduced to what takes its first shape to its last") {
  // Degree 6 to degree 4: g = 2, so combine 3, then partition 2.
  CHECK(normal_chain("pcg g { x = input([24]) return combine(0, 4, relu(partition(0, 4, combine(0, 6, "
                     "relu(partition(0, 6, x)))))) }") ==
        "partition(0, 6); combine(0, 3); partition(0, 2); combine(0, 4)");
}

TEST_CASE("copies come last and compose") {
  CHECK(normal_chain("pcg g { x = input([8]) return relu(replicate(2, partition(0, 2, replicate(3, x)))) }") ==
        "partition(0, 2); replicate(6)");
}

TEST_CASE("chains from one value share their common prefix") {
  // Both users need the sum on two devices: reduced and replicated once.
  CHECK(normal_chain("pcg g { x = input([8, 8]) w = weight([8, 8]) y = matmul(partition(1, 2, x), partition(0, 2, w))\n"
                     "a = relu(replicate(2, reduce(2, y))) b = tanh(replicate(2, reduce(2, y))) return a, b }") ==
        "partition(1, 2); partition(0, 2); reduce(2); replicate(2)");
}

TEST_CASE("what is combined for several users and cut again by each is not combined") {
  CHECK(normal_chain("pcg g { x = input([8]) y = relu(partition(0, 2, x)) z = combine(0, 2, y)\n"
                     "a = tanh(partition(0, 2, z)) b = gelu(partition(0, 2, z)) return a, b }") == "partition(0, 2)");
}

TEST_CASE("a weight that is stored in shards and gathered before use stays so") {
  CHECK(normal_chain("pcg g { x = input([8, 8]) w = weight([8, 8]) s = partition(0, 2, partition(1, 1, w))\n"
                     "y = matmul(replicate(2, x), replicate(2, combine(0, 2, s))) return y }") ==
        "partition(0, 2); replicate(2); combine(0, 2); replicate(2)");
}

TEST_CASE("stack_partials, pipeline and batch end chains") {
  CHECK(normal_chain("pcg g { x = input([8]) y = input([8])\n"
                     "return reduce(2, stack_partials(combine(0, 2, partition(0, 2, x)), y)) }") ==
        "stack_partials(); reduce(2)");
  CHECK(normal_chain("pcg g { x = input([8]) return batch(0, 2, relu(pipeline(0, 2, x))) }") ==
        "pipeline(0, 2); batch(0, 2)");
}

}  // namespace
}  // namespace unity
