// What a search writes down: candidates and why they were left out, the best so far, why it stopped.
#include <atomic>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/rewrite/normalize.h"
#include "core/search/search.h"
#include "core/search/substitution.h"
#include "simulator/cost_model.h"
#include "tests/support/checksum.h"
#include "tests/support/stub_cost_model.h"

namespace unity {
namespace {

using test::StubCostModel;
using test::uniform_topology;

// One relu on [16, 16], laid out in any way over two devices, without rules of algebra.
SearchLog log_of_relu(double alpha, int budget, std::vector<std::string> parallelism = {}) {
  Builder b("g");
  Pcg graph = std::move(b).finish({b.apply("relu", {}, {b.input("x", {16, 16})})});
  StubCostModel cost(uniform_topology(2));
  Evaluator evaluator(cost, {false, {}, {}}, {});
  std::vector<Rule> none;
  SubstitutionOptions options;
  options.alpha = alpha, options.budget = budget, options.devices = 2, options.rules = &none, options.whole = true;
  options.parallelism = std::move(parallelism);
  substitute({{graph, {}, {}}}, evaluator, options);
  CHECK(evaluator.scored() <= budget);
  return evaluator.record().log();
}

const ModelSpec kBert{"bert-tiny", {{"batch", 12}}};

Result<Plan> planned(const SearchOptions& options) {
  SimulatedCostModel cost(load_topology("summit", {1, 4}));
  return find_plan(kBert, build_model(kBert), cost, options);
}

TEST_CASE("of all layouts of one operator on two devices, each is scored once or left out for a reason") {
  // Each state tries to split rows, to split columns and to copy. The whole graph leads to three states. Copies may
  // share the rows or the columns and gather them: two more; copying again makes four tasks. The four states that are
  // split have four tasks after any further step: 3 + 2 new states, 1 + 4 * 3 too many tasks.
  SearchLog log = log_of_relu(1e9, 100);
  CHECK(log.count(LeftOut::too_many_tasks) == 13);
  CHECK(log.left_out_unscored() == 13);
  CHECK(log.count(LeftOut::above_alpha) == 0);
  // Rows are dimension 0 of the input, columns are not: a move less for the whole graph, rows, copies and rows of
  // these.
  SearchLog data = log_of_relu(1e9, 100, {"data"});
  CHECK(data.count(LeftOut::not_allowed) == 4);
}

TEST_CASE("alpha and the budget are counted as reasons") {
  // A task takes 1 ns and 1 ps for each FLOP: 1256 ps whole and copied, 1128 ps split. With alpha 1 both splits are
  // expanded, to no avail, and the copies are not.
  SearchLog narrow = log_of_relu(1, 100);
  CHECK(narrow.count(LeftOut::above_alpha) == 1);
  CHECK(narrow.left_out_unscored() == 6);
  CHECK(narrow.best_so_far == std::vector<BestSoFar>{{1, {1256}}, {2, {1128}}});
  // A budget of 2 is spent on the whole graph and one of its three layouts.
  CHECK(log_of_relu(1, 2).count(LeftOut::over_budget) == 2);
}

TEST_CASE("what is left out for its estimate leaves a part's best candidate as it was") {
  SimulatedCostModel cost(load_topology("summit", {16, 0}));
  std::int64_t left_out = 0;
  for (const ModelSpec& spec :
       {ModelSpec{"bert-large", {{"layers", 1}, {"batch", 384}}}, ModelSpec{"mlp", {{"batch", 12288}}}}) {
    Pcg model = normalize(build_model(spec));
    auto best = [&](double far_above) {
      Evaluator evaluator(cost, {true, {}, {}}, {});
      SubstitutionOptions options;
      options.devices = 96, options.budget = 60, options.part = true, options.bucket = Bytes{25'000'000};
      options.far_above = far_above;
      SubstitutionResult result = substitute({{model, {}, {}}}, evaluator, options);
      left_out += evaluator.record().log().count(LeftOut::slow_estimate);
      return static_cast<double>(result.found.at(0).candidate.score.iteration.count);
    };
    INFO(spec.name);
    CHECK(best(1.1) <= 1.025 * best(0));
  }
  CHECK(left_out >= 10);
}

TEST_CASE("every strategy's best so far falls until it is the plan that is returned") {
  for (const char* strategy : {"algebra-then-parallel", "data-parallel", "deepspeed-zero", "expert", "flexflow",
                               "megatron-grid", "pipeline", "random", "unity"}) {
    INFO(strategy);
    SearchOptions options;
    options.strategy = strategy;
    options.budget = 60;
    Plan plan = planned(options).value();
    const std::vector<BestSoFar>& best = plan.search.log.best_so_far;
    REQUIRE_FALSE(best.empty());
    CHECK(best.back().iteration == plan.prediction.iteration);
    CHECK(best.back().candidates <= plan.search.candidates);
    CHECK(plan.search.log.seconds.best_so_far.back() <= plan.search.seconds);
    for (std::size_t i = 1; i < best.size(); ++i) {
      CHECK(best[i].iteration < best[i - 1].iteration);
      CHECK(best[i].candidates >= best[i - 1].candidates);
    }
    CHECK_FALSE(plan.search.log.interrupted);
  }
}

TEST_CASE("but for seconds, the log is the same with any number of threads") {
  SearchOptions options;
  for (int budget : {12, options.budget}) {  // few of them, too
    options.budget = budget;
    options.jobs = 1;
    SearchLog one = planned(options).value().search.log;
    options.jobs = 3;
    SearchLog three = planned(options).value().search.log;
    CHECK(one.left_out == three.left_out);
    CHECK(one.best_so_far == three.best_so_far);
    CHECK(one.parts_solved == three.parts_solved);
    CHECK(one.parts_reused == three.parts_reused);
    CHECK(one.parts_solved > 0);
  }
}

TEST_CASE("small budgets are kept to, and do for a plan") {
  SearchOptions options;
  options.budget = 10;
  for (const char* strategy : {"algebra-then-parallel", "pipeline", "unity"}) {
    CAPTURE(strategy);
    options.strategy = strategy;
    auto plan = planned(options);
    REQUIRE(plan.ok());
    CHECK(plan->search.candidates <= 3 * options.budget);
  }
}

TEST_CASE("a search that is stopped returns the best so far and says so") {
  std::atomic<bool> stop{false};
  SearchOptions options;
  Plan whole = planned(options).value();
  options.stop = &stop;
  options.progress = [&](const SearchProgress&) { stop = true; };  // after the first part under the first layout
  Plan plan = planned(options).value();
  CHECK(plan.search.log.interrupted);
  CHECK(plan.search.stopped_because == "interrupted");
  CHECK(plan.search.candidates < whole.search.candidates);
  CHECK(plan.prediction.iteration >= whole.prediction.iteration);
  options.progress = nullptr;  // stopped before anything is scored
  CHECK(planned(options).error().message == "strategy unity: interrupted before a plan was found");
}

TEST_CASE("a time limit ends every strategy that goes on for long") {
  for (const char* strategy : {"unity", "flexflow", "megatron-grid"}) {
    INFO(strategy);
    SearchOptions options;
    options.strategy = strategy;
    options.time_limit = 1e-9;  // over before the first candidate
    CHECK(planned(options).error().message.find("time limit of 1e-09 s before a plan was found") != std::string::npos);
  }
  SearchOptions options;
  options.time_limit = -1;
  CHECK_THROWS_WITH(planned(options), Catch::Contains("time limit is -1"));
}

TEST_CASE("a plan file keeps the log, plans without one are read, and a log that makes no sense is refused") {
  SearchOptions options;
  options.budget = 60;
  Plan plan = planned(options).value();
  std::string text = plan_to_json(plan);
  Plan again = plan_from_json(text, "plan.json");
  CHECK(again.search.log.best_so_far == plan.search.log.best_so_far);
  CHECK(again.search.log.left_out == plan.search.log.left_out);
  CHECK(plan_to_json(again) == text);
  std::string wrong = files::without_checksum(text);
  wrong.replace(wrong.find("\"duplicate\""), 11, "\"duplicity\"");
  CHECK_THROWS_WITH(plan_from_json(wrong, "plan.json"),
                    Catch::Contains("plan.json: plan.search.log.left_out: unknown key 'duplicity'"));
  plan.search.log = {};
  CHECK(plan_from_json(plan_to_json(plan), "plan.json").search.log.best_so_far.empty());
}

}  // namespace
}  // namespace unity
