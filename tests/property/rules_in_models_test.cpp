// Every rule of the library at random places of real models, at reduced size: loss and gradients stay. Values are
// compared exactly (integers modulo a prime), gradients in f64 through core's evaluator and differentiation. A rule
// that occurs in no model is applied to an instance of its own.
//   UNITY_TEST_SEED          of all random choices
//   UNITY_TEST_APPLICATIONS  in models; 200 unless given. From 2000 on, every rule must have been applied
#include <algorithm>
#include <cstdlib>
#include <set>

#include <catch2/catch.hpp>

#include "core/graph/autodiff.h"
#include "core/models/models.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/instance.h"
#include "core/rewrite/library.h"
#include "tests/support/dice.h"
#include "tests/support/erased.h"
#include "tests/support/rewrite_check.h"
#include "tests/support/seed.h"
#include "tests/support/worse.h"

namespace unity {
namespace {

std::vector<ModelSpec> models() {
  std::map<std::string, std::int64_t> gpt = {{"batch", 4},   {"seq-len", 3}, {"layers", 1},
                                             {"hidden", 12}, {"heads", 6},   {"vocab", 12}};
  ModelSpec mixture{"moe-transformer", gpt};
  mixture.options.insert({{"experts", 2}, {"balance", 1}});
  mixture.options["layers"] = 2;
  return {{"bert@artifact", {{"batch", 4}, {"seq-len", 4}, {"layers", 1}, {"hidden", 12}, {"heads", 6}}},
          {"candle-uno", {{"batch", 6}, {"layers", 2}, {"top-layers", 2}, {"hidden", 12}, {"features", 12}}},
          {"dlrm", {{"batch", 6}, {"hidden", 24}, {"width", 6}, {"rows", 12}}},
          {"gpt2-small", gpt},
          {"inception-v3", {{"batch", 2}, {"image", 75}, {"classes", 6}, {"divisor", 16}}},
          {"mlp@artifact", {{"batch", 12}, {"layers", 3}, {"hidden", 12}, {"input", 12}}},
          mixture,
          {"resnext-50@artifact",
           {{"batch", 2}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 2}, {"blocks", 1}}},
          {"resnext-50", {{"batch", 2}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 2}, {"blocks", 1}}},
          {"t5-small",
           {{"batch", 4},
            {"seq-len", 3},
            {"target-len", 3},
            {"layers", 1},
            {"hidden", 12},
            {"heads", 6},
            {"head-size", 2},
            {"ffn", 12},
            {"vocab", 12}}},
          {"vit-b16",
           {{"batch", 4}, {"image", 12}, {"patch", 4}, {"layers", 1}, {"hidden", 12}, {"heads", 6}, {"classes", 6}}},
          {"xdl", {{"batch", 6}, {"rows", 12}, {"width", 12}, {"hidden", 12}}}};
}

using test::Dice;

constexpr int kTries = 300;  // instances of a rule of its own, for one at which it can be applied: degrees are drawn

// The gradient of every weight, by name. None where an operator has no gradient.
std::map<std::string, LogicalTensor> gradients(const Pcg& serial, const LeafValues& leaves) {
  auto training = differentiate(serial);
  if (!training.ok()) return {};
  LeafValues all = leaves;
  all["loss_gradient"] = LogicalTensor({{}, DType::f64});
  *all["loss_gradient"].as<double>() = 1;
  std::vector<LogicalTensor> outputs = evaluate_outputs(*training, all);
  std::map<std::string, LogicalTensor> result;
  std::size_t next = serial.outputs().size();
  for (const Node& node : serial.nodes())
    if (node.op->name() == "weight") result[node.name] = outputs.at(next++);
  return result;
}

// A variance is never negative, and batch norm takes a negative one for zero in real arithmetic.
void make_variances_positive(const Pcg& pcg, LeafValues& leaves) {
  for (const Node& node : pcg.nodes()) {
    if (node.op->name() != "batch_norm" || !pcg[node.inputs[2].node].is_leaf()) continue;
    LogicalTensor& variance = leaves.at(pcg[node.inputs[2].node].name);
    for (std::int64_t i = 0; i < variance.elements(); ++i)
      variance.as<double>()[i] = std::abs(variance.as<double>()[i]);
  }
}

// A graph, with what its rewritings must keep.
struct Original {
  explicit Original(Pcg graph, bool is_instance) : pcg(std::move(graph)), instance(is_instance) {
    Pcg serial = test::erased(pcg, instance).value();
    leaves = random_leaves(serial, {});
    make_variances_positive(serial, leaves);
    gradient = gradients(serial, leaves);
    EvaluateOptions exact{DType::mod, 7, 0};
    exact_leaves = random_leaves(pcg, exact);
    outputs = evaluate_outputs(pcg, exact_leaves, exact);
  }

  void check(const Pcg& after) const {
    CHECK(check_well_formed(after).ok());
    EvaluateOptions exact{DType::mod, 7, 0};
    REQUIRE(evaluate_outputs(after, exact_leaves, exact) == outputs);
    // The smallest differences are those of sums in another order: 2^-53 for each of some thousands of summands.
    std::map<std::string, LogicalTensor> found = gradients(test::erased(after, instance).value(), leaves);
    for (const auto& [name, expected] : gradient) {
      INFO("gradient of " << name);
      // The result of x + (y - x) does not depend on x, whose gradient the shorter graph has not.
      auto now = found.find(name);
      double largest = 1e-3, difference = 0;
      for (std::int64_t i = 0; i < expected.elements(); ++i) {
        largest = std::max(largest, std::abs(expected.number(i)));
        double number = now == found.end() ? 0 : now->second.number(i);
        difference = test::worse(difference, std::abs(expected.number(i) - number));
      }
      REQUIRE(difference <= 1e-9 * largest);
    }
  }

  Pcg pcg;
  bool instance;
  LeafValues leaves, exact_leaves;
  std::map<std::string, LogicalTensor> gradient;
  std::vector<LogicalTensor> outputs;
};

std::vector<Rule> all_rules() {
  std::vector<Rule> rules = rule_library();
  std::set<std::string> names;
  for (const Rule& rule : rules) names.insert(rule.name);
  for (Rule& rule : derived_rules())
    if (names.insert(rule.name).second) rules.push_back(std::move(rule));
  return rules;
}

class Walk {
 public:
  Walk(const std::vector<Rule>& rules, std::uint64_t seed) : rules_(rules), dice_(seed), applied_(rules.size(), 0) {}

  // Applies a rule at a random place of the graph, of those that can be applied one of the least applied.
  std::optional<Pcg> step(const Pcg& pcg, std::string& story) {
    std::vector<std::size_t> order(rules_.size()), key(rules_.size());
    for (std::size_t r = 0; r < order.size(); ++r) order[r] = r, key[r] = dice_.below(1 << 20);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(applied_[a], key[a]) < std::pair(applied_[b], key[b]);
    });
    MatchIndex index(pcg);
    for (std::size_t r : order) {
      std::vector<Match> matches = find_matches(index, rules_[r]);
      for (int tries = 0; tries < 3 && !matches.empty(); ++tries) {
        const Match& match = matches[dice_.below(matches.size())];
        std::vector<Parameters> choices = parameter_choices(pcg, rules_[r], match, {2, 3});
        if (choices.empty()) continue;
        auto after = apply(pcg, rules_[r], match, choices[dice_.below(choices.size())]);
        if (!after.ok() && after.error().message.find("there is no proof for") != std::string::npos)
          refused_.insert(rules_[r].name);
        if (!after.ok()) continue;
        ++applied_[r];
        story += rules_[r].name + "\n";
        return std::move(*after);
      }
    }
    return std::nullopt;
  }

  // Up to `length` applications, one after the other.
  int run(const Original& original, int length) {
    Pcg pcg = original.pcg;
    std::string story;
    int done = 0;
    for (; done < length; ++done) {
      auto next = step(pcg, story);
      if (!next) break;
      INFO("model " << pcg.name() << "\n" << story << print(*next));
      original.check(*next);
      pcg = std::move(*next);
    }
    return done;
  }

  // At instances of its own; false when there is none that it matches.
  bool apply_to_instances(std::size_t r, int count) {
    InstanceSampler sampler(rules_[r], {.seed = dice_.below(1 << 20)});
    int before = applied_[r];
    for (int tries = 0; tries < kTries * count && applied_[r] < before + count; ++tries) {
      auto instance = sampler.next();
      if (!instance) break;
      if (instance->fault != InstanceFault::none) continue;
      Parameters parameters;
      for (int p : rules_[r].parameters)
        if (const auto* value = std::get_if<std::int64_t>(&instance->instance.attributes[static_cast<std::size_t>(p)]))
          parameters[rules_[r].attributes[static_cast<std::size_t>(p)]] = *value;
      const Pcg& pcg = instance->instance.source;
      for (const Match& match : find_matches(pcg, rules_[r])) {
        auto after = apply(pcg, rules_[r], match, parameters);
        if (!after.ok()) continue;
        INFO(print(rules_[r]) << print(pcg) << print(*after));
        Original original(pcg, true);
        original.check(*after);
        undifferentiated_ += original.gradient.empty();
        ++applied_[r];
        break;
      }
    }
    return applied_[r] > before;
  }

  const std::vector<int>& applied() const { return applied_; }
  const std::set<std::string>& refused() const { return refused_; }  // somewhere, for want of a proof
  int undifferentiated() const { return undifferentiated_; }

 private:
  const std::vector<Rule>& rules_;
  Dice dice_;
  std::vector<int> applied_;
  std::set<std::string> refused_;
  int undifferentiated_ = 0;
};

TEST_CASE("rules applied at random in models keep the loss and all gradients") {
  std::uint64_t seed = test::seed_of_run();
  const char* given = std::getenv("UNITY_TEST_APPLICATIONS");
  int wanted = given ? std::atoi(given) : 200;
  INFO("UNITY_TEST_SEED=" << seed);
  std::vector<Rule> rules = all_rules();
  Walk walk(rules, seed);
  int done = 0;
  // Short walks first, that every model has its turn; the graphs of long ones hold more to rewrite.
  for (int length : {6, 12, 18, 24}) {
    for (const ModelSpec& spec : models()) {
      if (done >= wanted) break;
      Original original(build_model(spec), false);
      for (int k = 0; k < std::max(1, wanted / 400) && done < wanted; ++k)
        done += walk.run(original, std::min(length, wanted - done));
    }
  }
  CHECK(done == wanted);
  auto in_models = std::count_if(walk.applied().begin(), walk.applied().end(), [](int n) { return n > 0; });
  int most = *std::max_element(walk.applied().begin(), walk.applied().end());

  int alone = 0;
  std::vector<std::string> never;
  for (std::size_t r = 0; r < rules.size() && wanted >= 2000; ++r) {
    if (walk.applied()[r] > 0) continue;
    if (walk.apply_to_instances(r, 2))
      ++alone;
    else
      never.push_back(rules[r].name);
  }
  fmt::print("seed {}: {} applications in models, of {} of {} rules, at most {} of one; ", seed, done, in_models,
             rules.size(), most);
  fmt::print("{} further rules at instances of their own, two of each ({} of these applications without gradients)\n",
             alone, walk.undifferentiated());
  for (const std::string& name : walk.refused()) fmt::print("  {} was refused somewhere for want of a proof\n", name);
  for (const std::string& name : never) UNSCOPED_INFO(name << " was never applied");
  CHECK(never.empty());
}

}  // namespace
}  // namespace unity
