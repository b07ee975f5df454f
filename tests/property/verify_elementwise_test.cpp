// Random element-wise terms: equal normal forms mean equal shapes and values, zeros and broadcasting included.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/base/random.h"
#include "core/graph/evaluate.h"
#include "core/ops/reference.h"
#include "core/rewrite/rule_text.h"
#include "core/verify/elementwise.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

const std::vector<const char*> kLeaves = {"x", "y", "f,"};  // in no operator's name

class Terms {
 public:
  explicit Terms(RandomKey key) : key_(key) {}
  std::uint64_t below(std::uint64_t n) { return random_below(key_, draws_++, n); }

  std::string term(int depth) {
    if (depth == 0 || below(5) == 0) return below(2) ? "x" : "y";
    static const std::vector<std::string> kUnary = {"scale(2.0, ", "scale(f, ", "shift(1.0, ", "power(2.0, ", "relu("};
    static const std::vector<std::string> kBinary = {"add", "sub", "mul", "div"};
    if (below(4) == 0) return kUnary[below(kUnary.size())] + term(depth - 1) + ")";
    std::string left = term(depth - 1), right = term(depth - 1);
    return kBinary[below(kBinary.size())] + "(" + left + ", " + right + ")";
  }

 private:
  RandomKey key_;
  std::uint64_t draws_ = 0;
};

// Every third element of each leaf is zero, of different leaves at different places.
LeafValues with_zeros(const Pcg& pcg, std::uint64_t seed) {
  LeafValues leaves = random_leaves(pcg, {DType::mod, seed, 0});
  std::int64_t first = 0;
  for (auto& [name, value] : leaves)
    for (std::int64_t i = first++; i < value.elements(); i += 3) value.as<Mod>()[i] = Mod(0);
  return leaves;
}

TEST_CASE("terms of one normal form have one shape and equal values") {
  std::uint64_t seed = test::seed_of_run();
  Terms terms(RandomKey(seed).with(0xe1));
  int same = 0, zeros = 0;
  for (int draw = 0; draw < 40'000; ++draw) {
    std::string source = terms.term(2), target = terms.term(2);
    auto uses = [](const std::string& term, const char* name) { return term.find(name) != std::string::npos; };
    if (std::any_of(kLeaves.begin(), kLeaves.end(),
                    [&](const char* leaf) { return uses(target, leaf) && !uses(source, leaf); }))
      continue;
    std::string text = "rule r " + source + " => " + target;
    if (!uses(source, "(")) continue;  // sources are operators
    Rule rule = parse_rules(text)[0];
    std::vector<ParallelShape> variables;
    for (std::size_t v = 0; v < rule.values.size(); ++v) {
      static const std::vector<Dims> kShapes = {{4, 3}, {4, 3}, {3}, {1, 3}, {1}};
      variables.push_back(serial({kShapes[terms.below(kShapes.size())], DType::f32}));
    }
    Instantiation at = instantiate(rule, variables, std::vector<AttributeValue>(rule.attributes.size(), 3.0));
    if (at.fault != InstanceFault::none && at.fault != InstanceFault::shapes) continue;
    if (!same_normal_forms(rule, at.instance, signature_of(rule, at.instance))) continue;
    INFO("seed " << seed << ": " << text);
    REQUIRE(at.fault == InstanceFault::none);
    LeafValues leaves = with_zeros(at.instance.source, seed);
    REQUIRE(evaluate_outputs(at.instance.source, leaves, {DType::mod, seed, 0}) ==
            evaluate_outputs(at.instance.target, leaves, {DType::mod, seed, 0}));
    ++same;
    zeros += text.find("div") != std::string::npos;
  }
  CHECK(same > 100);
  CHECK(zeros > 0);
}

}  // namespace
}  // namespace unity
