// Rules at concrete shapes: the sampler finds instances of every rule, and both sides of an instance are equal.
#include <catch2/catch.hpp>

#include "core/rewrite/derive.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/library.h"
#include "core/rewrite/rule_text.h"
#include "tests/support/rewrite_check.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

Instantiation instance_of(const std::string& rule, std::vector<ParallelShape> variables,
                          std::vector<AttributeValue> attributes) {
  static std::vector<Rule> kept;
  kept = parse_rules(rule);
  return instantiate(kept.at(0), variables, attributes);
}

TEST_CASE("instances of every rule are found, and their sides are equal") {
  std::uint64_t seed = test::seed_of_run();
  std::vector<Rule> rules = rule_library();
  for (Rule& rule : derived_rules()) rules.push_back(std::move(rule));
  for (const Rule& rule : rules) {
    INFO(print(rule));
    InstanceSampler sampler(rule, {seed});
    int good = 0;
    for (int i = 0; i < 6 || (good == 0 && i < 100); ++i) {
      auto sample = sampler.next();
      INFO(sampler.obstacle());
      REQUIRE(sample);
      if (sample->fault != InstanceFault::none) continue;
      ++good;
      INFO(print(sample->instance.source) << print(sample->instance.target));
      CHECK(evaluates_equal(sample->instance, seed));
    }
    CHECK(good > 0);
  }
}

TEST_CASE("indices are found through the operators that move them") {
  Rule rule = parse_rules("rule r embedding(concat(0, i, j), t) => concat(0, embedding(i, t), embedding(j, t))")[0];
  InstanceSampler sampler(rule, {7});
  auto sample = sampler.next();
  REQUIRE(sample);
  for (int v : {0, 1}) CHECK(sample->instance.variables[static_cast<std::size_t>(v)].dtype == DType::i32);
  CHECK(sample->instance.variables[2].dtype == DType::f32);
}

TEST_CASE("a list that a condition gives follows the operands' sizes") {
  Rule rule = parse_rules(
      "rule r reshape(s, x) => reshape(s, relu(x)) where rank(x) == 3, s == [dim(x, 0), dim(x, 1)*dim(x, 2)]")[0];
  InstanceSampler sampler(rule, {7});
  auto sample = sampler.next();
  REQUIRE(sample);
  Dims x = sample->instance.variables[0].shape().dims;
  CHECK(sample->instance.attributes[0] == AttributeValue(Dims{x[0], x[1] * x[2]}));
}

TEST_CASE("an instance says what is wrong with a rule") {
  ParallelShape x = serial({{4, 6}, DType::f32}), w = serial({{6, 8}, DType::f32});
  using Fault = InstanceFault;
  CHECK(instance_of("rule r relu(relu(x)) => relu(x)", {x}, {}).fault == Fault::none);
  CHECK(instance_of("rule r matmul(x, w) => matmul(w, x)", {x, w}, {}).fault == Fault::target);
  CHECK(instance_of("rule r matmul(w, x) => matmul(x, w)", {x, w}, {}).fault == Fault::target);
  CHECK(instance_of("rule r matmul(x, w) => matmul(x, w)", {w, x}, {}).fault == Fault::source);
  CHECK(instance_of("rule r relu(x) => partition(0, 2, relu(x))", {x}, {}).fault == Fault::shapes);
  CHECK(instance_of("rule r relu(x) => x where dim(x, 0) == 5", {x}, {}).fault == Fault::condition);
  CHECK(instance_of("rule r relu(x) => combine(0, 2, relu(x))", {x}, {}).why.find("multiple of 2") !=
        std::string::npos);
  Instantiation wrong = instance_of("rule r relu(x) => x", {x}, {});
  REQUIRE(wrong.fault == Fault::none);
  CHECK_FALSE(evaluates_equal(wrong.instance, 1));
}

TEST_CASE("an identity of real functions is told from an exact one and from a wrong one") {
  ParallelShape x = serial({{4, 6}, DType::f32});
  auto agreement = [&](const std::string& rule) { return compare_sides(instance_of(rule, {x}, {}).instance, 3); };
  CHECK(agreement("rule r scale(2.0, scale(3.0, x)) => scale(6.0, x)") == Agreement::exact);
  CHECK(agreement("rule r relu(relu(x)) => relu(x)") == Agreement::rounding);
  CHECK(agreement("rule r log(exp(x)) => shift(0.0, log(exp(x)))") == Agreement::exact);
  CHECK(agreement("rule r relu(tanh(x)) => tanh(x)") == Agreement::none);
}

TEST_CASE("the variables of an instance are laid out as asked") {
  ParallelShape x = serial({{4, 6}, DType::f32});
  x.dims[0].degree = 2, x.copies = 3, x.partials = 2;
  Instantiation found = instance_of("rule r scale(f, x) => scale(f, x)", {x}, {2.0});
  REQUIRE(found.fault == InstanceFault::none);
  CHECK(to_string(found.instance.source.shape(found.instance.source.outputs()[0])) == to_string(x));
}

}  // namespace
}  // namespace unity
