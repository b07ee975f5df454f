// The rules panel's data, and rules applied by hand.
#include "gui/panels/rules/rules.h"

#include <catch2/catch.hpp>

#include "core/rewrite/library.h"
#include "gui/session/replay.h"
#include "gui/session/rewriting.h"
#include "gui/session/session.h"
#include "tests/gui/support.h"
#include "tests/support/paths.h"

using namespace unity;
using namespace unity::gui;

TEST_CASE("every rule of the library is listed with its proof") {
  const std::vector<RuleEntry>& entries = rule_entries();
  CHECK(entries.size() == rule_library().size());
  for (const RuleEntry& entry : entries) {
    INFO(entry.rule->name);
    CHECK(entry.proof);
    CHECK(rule_facts(entry).size() >= 5);
  }
  auto found = search_rules(entries, "merge matmul");
  CHECK(
      std::any_of(found.begin(), found.end(), [&](std::size_t i) { return entries[i].rule->name == "merge_matmuls"; }));
  CHECK(search_rules(entries, "no-such-operator").empty());
}

TEST_CASE("a rule's picture shows both sides, apart from one another") {
  RulePicture picture = picture_of(*find_rule("merge_matmuls"), TextMetrics(), UNITY_BINARY_DIR "/bin/unity-gui");
  CHECK(!picture.source.meets(picture.target));
  auto count = [&](const std::string& text) {
    return std::count_if(picture.boxes.begin(), picture.boxes.end(), [&](const RulePicture::Box& b) {
      return b.text.starts_with(text) && picture.source.meets(b.box);
    });
  };
  CHECK(count("matmul") == 2);
  CHECK(count("result") == 2);
  for (std::size_t i = 0; i < picture.boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(!picture.boxes[i].box.meets(picture.boxes[j].box));
}

TEST_CASE("every match of a rule can be applied by hand, and undone") {
  Session session;
  session.add(small_plan());
  std::string before = to_text(*session.document());
  const Plan& plan = *session.document()->plan;
  std::vector<bool> matches = rules_that_match(plan.pcg, rule_entries());
  std::size_t applied = 0, changed = 0;
  for (std::size_t i = 0; i < matches.size() && applied < 12; ++i) {
    if (!matches[i]) continue;
    const Rule& rule = *rule_entries()[i].rule;
    RulePlaces places = rule_places(plan, *session.document()->topology, rule);
    INFO(rule.name);
    CHECK(places.labels.size() == places.matches.size());
    CHECK(places.matches.size() + places.ill_typed == find_matches(plan.pcg, rule).size());
    if (places.matches.empty()) continue;  // it would be ill-typed everywhere
    Result<void> done = session.apply({"apply_rule",
                                       {{"rule", rule.name},
                                        {"match", std::to_string(places.numbers[0])},
                                        {"parameters", to_text(places.choices[0][0])}}});
    REQUIRE(done.ok());  // what would not fit is not listed
    ++applied;
    const Plan& next = *session.document()->plan;
    CHECK(next.derivation.back().rule == rule.name);
    CHECK(check_plan(next, *session.document()->topology).ok());
    CHECK(Predictor().quick(*session.document()).error.empty());
    changed += to_text(*session.document()) != before;
    session.commands.run("undo").value();
    CHECK(to_text(*session.document()) == before);
  }
  CHECK(applied > 3);
  CHECK(changed == applied);
}

TEST_CASE("what is selected stays selected when a rule gives the nodes other numbers") {
  Session session;
  session.add(small_plan());
  auto label = [&] {
    NodeId node = session.selection().node();
    return node.valid() ? session.document()->graph()[node].name : std::string();
  };
  const Pcg& pcg = session.document()->graph();
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].name == "encoder.1.ffn.gelu" && !pcg.nodes()[i].is_parallelization())
      session.select(Selection::of(NodeId(static_cast<std::int64_t>(i))));
  REQUIRE(label() == "encoder.1.ffn.gelu");
  std::size_t before = pcg.size();
  REQUIRE(session.apply({"apply_rule", {{"rule", "fuse_attention"}, {"match", "0"}}}).ok());
  CHECK(session.document()->graph().size() < before);
  CHECK(label() == "encoder.1.ffn.gelu");
  session.commands.run("undo").value();
  CHECK(label() == "encoder.1.ffn.gelu");
}

TEST_CASE("a rule that cannot be applied says why and changes nothing") {
  Session session;
  session.add(small_plan());
  auto error = [&](Arguments arguments) { return session.apply({"apply_rule", std::move(arguments)}).error().message; };
  CHECK(error({{"rule", "no_such"}, {"match", "0"}}) == "apply_rule: the library has no rule 'no_such'");
  CHECK(error({{"rule", "merge_conv2ds"}, {"match", "0"}}) == "apply_rule: merge_conv2ds has 0 matches, found match 0");
  CHECK(error({{"rule", "merge_matmuls"}, {"match", "0"}, {"parameters", "d"}}) ==
        "parameters: found 'd', expected name=number");
  CHECK(!session.file()->history.can_undo());
}

TEST_CASE("a derivation has a line for each step, or one for neighbours of one kind") {
  Plan plan = *small_plan()->plan;
  plan.derivation = {{"fuse_attention", "a", 0, 900},
                     {"shard_add_d0", "b", 2, 0},
                     {"shard_matmul_n", "c", 2, 700},
                     {"shard_matmul_n", "d", 2, 0}};
  auto each = derivation_lines(plan, false);
  REQUIRE(each.size() == 4);
  CHECK(each[2].before == 900);
  CHECK(each[2].after == 700);
  auto together = derivation_lines(plan, true);
  REQUIRE(together.size() == 3);  // what was scored ends a line
  CHECK(together[1].count == 2);
  CHECK(together[1].after == 700);
}

TEST_CASE("a derivation is applied again, and ends near the time of the plan") {
  Snapshot document = small_plan();
  std::vector<StepRange> ranges;
  for (const DerivationLine& line : derivation_lines(*document->plan, true)) ranges.push_back({line.first, line.count});
  std::vector<ReplayedSteps> replayed(ranges.size());
  std::size_t known = 0;
  ReplayWatch watch;
  watch.known = [&](std::size_t line, const ReplayedSteps& steps) { replayed[line] = steps, ++known; };
  replay(*document->plan, document->topology, ranges, watch);
  REQUIRE(known == ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    INFO(replayed[i].note);
    CHECK(replayed[i].applied == ranges[i].count);
    if (i > 0) CHECK(replayed[i].before == replayed[i - 1].after);
  }
  CHECK(replayed.back().after.seconds() == Approx(document->plan->prediction.iteration.seconds()).epsilon(0.2));
  std::atomic<bool> stop{true};
  watch.stop = &stop;
  watch.known = [](std::size_t, const ReplayedSteps&) { CHECK(false); };
  replay(*document->plan, document->topology, ranges, watch);
}

TEST_CASE("what a derivation does to all layers is simulated for the first and the last one") {
  Snapshot document = small_plan();
  Plan plan = *document->plan;
  constexpr int kLayers = 8;
  plan.model.options["layers"] = kLayers;
  plan.derivation.clear();
  std::vector<StepRange> each;
  for (int layer = 0; layer < kLayers; ++layer) {
    plan.derivation.push_back({"fuse_attention", fmt::format("encoder.{}.attention.context", layer), 0, 0});
    each.push_back({layer, 1});
  }
  auto lines_of = [&](const std::vector<StepRange>& ranges) {
    std::vector<ReplayedSteps> lines(ranges.size());
    ReplayWatch watch;
    watch.known = [&](std::size_t line, const ReplayedSteps& steps) { lines[line] = steps; };
    replay(plan, document->topology, ranges, watch);
    return lines;
  };
  std::vector<ReplayedSteps> lines = lines_of(each);
  for (const ReplayedSteps& line : lines) CHECK(line.applied == 1);
  CHECK(!lines.front().about);
  CHECK(!lines.back().about);
  CHECK(lines[3].about);
  // The first four together: their end is simulated.
  ReplayedSteps four = lines_of({{0, 4}, {4, 4}})[0];
  CHECK(!four.about);
  CHECK(lines[3].after.seconds() == Approx(four.after.seconds()).epsilon(0.01));
  CHECK(lines[3].after < lines[0].before);
}
