#include <catch2/catch.hpp>

#include "core/generate/generate.h"
#include "core/generate/term_rewrite.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/rule_text.h"
#include "tests/support/families.h"

namespace unity {
namespace {

TEST_CASE("every generated rule's instances have equal shapes and values") {
  GenerateOptions options;
  options.families = select_families(default_families(), {"relu", "matmul_layouts", "degrees"});
  options.sharding = false;
  constexpr std::uint64_t kSeed = 20;  // not that of the generator
  for (const GeneratedRule& g : generate(options).kept) {
    INFO(print(g.rule) << "seed " << kSeed);
    InstanceSampler sampler(g.rule, {kSeed, 4, {1, 2, 3, 4}, 100, false});
    for (int i = 0; i < 8; ++i) {
      auto next = sampler.next();
      if (!next || next->fault == InstanceFault::target) continue;
      REQUIRE(next->fault == InstanceFault::none);
      REQUIRE(evaluates_equal(next->instance, kSeed));
    }
  }
}

TEST_CASE("rules on terms and rules on graphs give as many results") {
  // relu(relu(relu(x))): twice in the chain; the conditions and attributes decide the rest.
  TermTable terms;
  int x = terms.add_leaf(serial({{4, 6}, DType::f32}));
  int relu = terms.add_operator(term_operator("relu"));
  int cut = terms.add_operator(term_operator("partition", {std::int64_t{1}, std::int64_t{2}}));
  std::int32_t v = x;
  for (int op : {relu, cut, relu, relu}) v = terms.node(terms.apply(op, std::vector<std::int32_t>{v})).first_value;
  auto results = [&](const std::string& rule) {
    return rewrite_term(terms, parse_rules("rule r " + rule)[0], {v, -1}, {2}).size();
  };
  CHECK(results("relu(relu(x)) => relu(x)") == 1);
  CHECK(results("partition(a, d, relu(x)) => relu(partition(a, d, x))") == 1);
  CHECK(results("partition(0, d, relu(x)) => relu(partition(0, d, x))") == 0);
  CHECK(results("relu(partition(a, d, x)) => partition(a, d, relu(x)) where d > 2") == 0);
  CHECK(results("relu(partition(a, d, x)) => partition(a, d, relu(x)) where dim(x, a) == 6") == 1);
  CHECK(results("relu(x) => combine(0, e, relu(partition(0, e, x)))") == 3);  // three relus, e = 2
  CHECK(results("relu(x) => combine(1, e, relu(partition(1, e, x)))") == 3);  // 6 / 2 / 2 is uneven, and legal
}

}  // namespace
}  // namespace unity
