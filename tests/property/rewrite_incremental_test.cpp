// Matches that are carried over from one graph to the next, along random walks (core/rewrite/incremental_match.h).
//   UNITY_TEST_SEED  of all random choices
#include <catch2/catch.hpp>

#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/rewrite/apply.h"
#include "core/rewrite/axis_classes.h"
#include "core/rewrite/incremental_match.h"
#include "core/rewrite/library.h"
#include "core/rewrite/normalize.h"
#include "core/rewrite/rule_text.h"
#include "tests/support/dice.h"
#include "tests/support/seed.h"

namespace unity {
namespace {

using test::Dice;

std::vector<ModelSpec> models() {
  return {{"mlp", {{"batch", 12}, {"layers", 4}, {"hidden", 12}}},
          {"bert-tiny", {{"layers", 2}}},
          {"dlrm", {{"batch", 6}, {"hidden", 24}, {"width", 6}, {"rows", 12}}},
          {"inception-v3", {{"batch", 2}, {"image", 75}, {"classes", 6}, {"divisor", 16}}},
          {"resnext-50", {{"batch", 2}, {"image", 32}, {"classes", 6}, {"divisor", 16}, {"groups", 2}, {"blocks", 1}}}};
}

const PreparedRules& library() {
  static const PreparedRules rules(rule_library());
  return rules;
}

// What search does to a graph, and what it does not: matches in graphs of any kind must be found.
Result<Pcg> step(const Pcg& pcg, const GraphMatches& matches, Dice& dice) {
  int degree = dice.below(3) == 0 ? 3 : 2;
  NodeId node(static_cast<std::int64_t>(dice.below(pcg.size())));
  const auto& table = pcg[node].table;
  auto axis = [&] { return static_cast<int>(dice.below(table->axes.size())); };
  switch (dice.below(8)) {
    case 0: {
      std::vector<AxisClass> classes = axis_classes(pcg);
      return shard_class(pcg, classes[dice.below(classes.size())], degree, nullptr, dice.below(2) == 0);
    }
    case 1:
      return apply_replicate_everywhere(pcg, degree);
    case 2:
      return table && !table->axes.empty() ? apply_shard(pcg, node, axis(), degree) : fail("no axes");
    case 3:
      return table && !table->axes.empty() ? apply_spread(pcg, node, axis(), degree) : fail("no axes");
    case 4: {  // another result is kept, or the last one no more
      Pcg more = pcg;
      std::vector<ValueRef> outputs = pcg.outputs();
      if (outputs.size() > 2 && dice.below(2) == 0)
        outputs.pop_back();
      else
        outputs.push_back({node, 0});
      more.set_outputs(std::move(outputs));
      return more;
    }
    default:
      break;
  }
  if (matches.all.empty()) return fail("no match");
  std::size_t m = dice.below(matches.all.size());
  std::size_t r =
      static_cast<std::size_t>(std::upper_bound(matches.ends.begin(), matches.ends.end(), m) - matches.ends.begin());
  const Rule& rule = library().rules()[r].pattern.rule;
  std::vector<Parameters> choices = parameter_choices(pcg, rule, matches.all[m], {2, 3});
  if (choices.empty()) return fail("no parameters");
  return apply(pcg, rule, matches.all[m], choices[dice.below(choices.size())]);
}

// The rules whose matches differ from those that are found one by one.
std::string wrong_rules(const MatchIndex& index, const GraphMatches& found) {
  std::string names;
  for (std::size_t r = 0; r < library().rules().size(); ++r) {
    const Rule& rule = library().rules()[r].pattern.rule;
    std::vector<Match> expected = find_matches(index, rule);
    std::span<const Match> of = found.of(r);
    if (!std::equal(of.begin(), of.end(), expected.begin(), expected.end())) names += rule.name + " ";
  }
  return names;
}

TEST_CASE("matches that are carried over along random walks are those that are found anew") {
  std::uint64_t seed = test::seed_of_run();
  std::size_t carried = 0, all = 0;
  int steps = 0;
  for (const ModelSpec& spec : models())
    for (std::uint64_t walk = 0; walk < 6; ++walk) {
      INFO("UNITY_TEST_SEED=" << seed << " model " << spec.name << " walk " << walk);
      Dice dice(combine(seed, walk));
      Pcg pcg = normalize(build_model(spec));
      GraphMatches matches = find_matches(MatchIndex(pcg), library());
      CHECK(wrong_rules(MatchIndex(pcg), matches) == "");
      for (int tries = 0, applied = 0; tries < 60 && applied < 12; ++tries) {
        auto moved = step(pcg, matches, dice);
        if (!moved.ok()) continue;
        ++applied, ++steps;
        // Most are normal forms, as in a search.
        Pcg next = dice.below(4) == 0 ? std::move(*moved) : normalize(*moved);
        MatchIndex index(next);
        GraphMatches found = find_matches(index, library(), pcg, matches);
        INFO("step " << applied << "\n" << print(pcg) << print(next));
        REQUIRE(wrong_rules(index, found) == "");
        carried += found.carried, all += found.all.size();
        pcg = std::move(next), matches = std::move(found);
      }
    }
  fmt::print("seed {}: {} steps, {} of {} matches carried over\n", seed, steps, carried, all);
  CHECK(steps > 50);
  CHECK(carried > 0);
}

Rule rule_of(const std::string& text) { return parse_rules("rule r " + text)[0]; }

using Where = RuleReach::Where;

TEST_CASE("a rule reaches as far as the nodes of its source lie from the root") {
  CHECK(reach_of(rule_of("relu(x) => relu(x)")) == RuleReach{Where::below, 0, false});
  CHECK(reach_of(rule_of("add(relu(tanh(x)), y) => add(y, relu(tanh(x)))")) == RuleReach{Where::below, 2, false});
  // From y1 down to x, whose users are looked at, and up to y2.
  CHECK(reach_of(rule_of("let y1 = matmul(x, w1), y2 = matmul(x, w2) (y1, y2) => (y1, y2)")) ==
        RuleReach{Where::around, 2, false});
  CHECK(reach_of(rule_of("let y1 = relu(x), y2 = tanh(y) (y1, y2) => (y1, y2)")).where == Where::anywhere);
  CHECK(reach_of(rule_of("relu(x) => relu(x) where partials(x) == 1")).layouts);
  CHECK(!reach_of(rule_of("relu(x) => relu(x) where dim(x, 0) == 4")).layouts);
}

// How many matches of the rule are carried over from one graph to the other; they are right.
std::size_t carried(const std::string& rule, const std::string& before, const std::string& after) {
  std::vector<Rule> rules = {rule_of(rule)};
  PreparedRules prepared(rules);
  Pcg was = parse_pcg("pcg g { x = input([4, 4]) y = input([4, 4]) " + before + " }");
  Pcg is = parse_pcg("pcg g { x = input([4, 4]) y = input([4, 4]) " + after + " }");
  GraphMatches found = find_matches(MatchIndex(is), prepared, was, find_matches(MatchIndex(was), prepared));
  CHECK(found.all == find_matches(is, rules[0]));
  return found.carried;
}

TEST_CASE("matches are carried over where neither operands nor users nor outputs changed") {
  std::string rule = "relu(tanh(x)) => tanh(relu(x))";
  std::string was = "a @ 2 = tanh(x) b @ 3 = relu(a) c @ 4 = add(b, y) ";
  CHECK(carried(rule, was + "return c", was + "return c") == 1);
  CHECK(carried(rule, was + "return c", was + "d @ 5 = gelu(c) return d") == 1);
  CHECK(carried(rule, was + "return c", was + "return c, y") == 1);
  // The product of tanh is used elsewhere, or an output.
  CHECK(carried(rule, was + "return c", was + "d @ 5 = add(a, c) return d") == 0);
  CHECK(carried(rule, was + "return c", was + "return c, a") == 0);
  CHECK(carried(rule, was + "return c, a", was + "return c") == 0);
  CHECK(carried(rule, was + "return c", "z @ 6 = gelu(x) a @ 2 = tanh(z) b @ 3 = relu(a) c @ 4 = add(b, y) return c") ==
        0);
}

TEST_CASE("a rule keeps no matches where operands have other sizes") {
  std::string rest = "a @ 2 = relu(z) return a";
  CHECK(carried("relu(x) => relu(x) where dim(x, 0) == 4", "z @ 3 = input([4, 4]) " + rest,
                "z @ 3 = input([8, 4]) " + rest) == 0);
}

TEST_CASE("rules whose conditions read layouts keep no matches where these change") {
  std::string was = "a @ 2 = tanh(x) b @ 3 = relu(a) c @ 4 = gelu(b) return c";
  std::string is =
      "p @ 5 = partition(0, 2, x) a @ 2 = tanh(p) b @ 3 = relu(a) c @ 4 = gelu(b) q @ 6 = combine(0, 2, c) return q";
  CHECK(carried("gelu(x) => gelu(x)", was, is) == 0);  // its user changed
  CHECK(carried("relu(x) => relu(x)", was, is) == 1);
  CHECK(carried("relu(x) => relu(x) where degree(x, 0) == 1", was, is) == 0);
}

}  // namespace
}  // namespace unity
