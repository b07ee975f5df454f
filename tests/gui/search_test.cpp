// Searches that are watched and stopped, and what the panel shows of them.
#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

#include "gui/panels/search/view.h"
#include "gui/session/session.h"
#include "tests/gui/support.h"

using namespace unity;
using namespace unity::gui;

namespace {

SearchRequest request_of(const std::string& model) {
  SearchRequest request;
  request.model.model = model;
  request.topology = "summit";
  request.nodes = 1;
  request.devices = 2;
  return request;
}

template <class Condition>
void poll_until(Session& session, Condition condition) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    session.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    REQUIRE(std::chrono::steady_clock::now() < end);
  }
}

}  // namespace

TEST_CASE("settings of a search are set by name, those of the command line") {
  SearchRequest request = request_of("mlp-tiny");
  for (auto [name, value] : {std::pair("budget", "12"),
                             {"memory-limit", "1 GB"},
                             {"no-algebra", "true"},
                             {"schedule", "1f1b"},
                             {"nodes", "3"},
                             {"pareto", "true"},
                             {"time-limit", ""}})
    set_field(request, name, value);
  CHECK(request.settings.search.budget == 12);
  CHECK(request.settings.memory_limit == "1 GB");
  CHECK(!request.settings.search.algebra);
  CHECK(request.settings.schedule.order == "1f1b");
  CHECK(request.nodes == 3);
  CHECK_THROWS_WITH(set_field(request, "budgt", "1"), "a search has no setting 'budgt' (did you mean 'budget'?)");
  CHECK_THROWS_WITH(set_field(request, "seed", "many"), "seed: found 'many', expected a number of at least 0");
  CHECK_THROWS(set_field(request, "budget", "-3"));
}

TEST_CASE("a search runs in the background, is watched, and its plan opens when it ends") {
  Session session;
  REQUIRE(session.search(request_of("bert-tiny")).ok());
  CHECK(!session.search(request_of("bert-tiny")).ok());  // one at a time
  std::int64_t most = 0, longest_queue = 0;
  poll_until(session, [&] {
    SearchRun::Status status = session.search_run()->status();
    CHECK(status.state.candidates >= most);  // never fewer
    CHECK(std::min(status.state.queue.to_score, status.state.queue.to_expand) >= 0);
    longest_queue = std::max(longest_queue, status.state.queue.to_score + status.state.queue.to_expand);
    most = status.state.candidates;
    return session.document() != nullptr;
  });
  SearchRun::Status status = session.search_run()->status();
  CHECK(status.done);
  CHECK(status.state.candidates == session.document()->plan->search.candidates);
  CHECK(!session.document()->plan->search.log.interrupted);
  CHECK(longest_queue > 0);
  SearchView view = search_view(status, session.search_run()->found());
  REQUIRE(view.charts.size() == 4);
  CHECK(!view.charts[0].series.empty());
  CHECK(view.front.series[0].points.size() == 1);
}

TEST_CASE("a search that is stopped keeps the best so far, marked as such") {
  Session session;
  SearchRequest request = request_of("bert-large");
  request.devices = 6;
  REQUIRE(session.search(request).ok());
  poll_until(session, [&] { return !session.search_run()->status().state.log.best_so_far.empty(); });
  REQUIRE(session.commands.run("cancel").ok());  // what the status line offers is no less
  poll_until(session, [&] { return !session.searching() || session.document(); });
  REQUIRE(session.document());
  CHECK(session.document()->plan->search.log.interrupted);
  CHECK(session.document()->title.ends_with(", best so far"));
}

TEST_CASE("a search without a plan says why") {
  Session session;
  SearchRequest request = request_of("mlp-tiny");
  request.settings.memory_limit = "1 kB";
  REQUIRE(session.search(request).ok());
  poll_until(session, [&] { return !session.messages().empty(); });
  CHECK(session.messages().front().error);
  CHECK(session.search_run()->status().error.find("needs") != std::string::npos);
  request.model.model = "no-such-model";
  REQUIRE(session.search(request).ok());
  poll_until(session, [&] { return session.messages().size() == 2; });
  CHECK(!session.document());
}

TEST_CASE("candidates a second are counted over the last second") {
  std::vector<std::pair<double, double>> scored;
  for (int i = 0; i <= 40; ++i) scored.emplace_back(0.1 * i, i <= 20 ? 10 * i : 200);
  report::Chart chart = rate_chart(scored);
  REQUIRE(chart.series.size() == 1);
  CHECK(chart.series[0].points[14].y == Approx(100));  // 10 in 0.1 s
  CHECK(chart.series[0].points.back().y == 0);
  CHECK(rate_chart({}).series.empty());
}
