// Plans in a session: read again, saved, simulated again, and searches beside everything else.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

#include "gui/panels/info/facts.h"
#include "gui/session/session.h"
#include "tests/gui/support.h"
#include "tests/gui/wait.h"

using namespace unity;
using namespace unity::gui;

namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("unity-gui-{}-{}", getpid(), name)).string();
}

const Edit kMapped = {"set_mapping", {{"nodes", "encoder.0.ffn.gelu"}, {"start", "0"}, {"strides", "1 2"}}};

}  // namespace

TEST_CASE("a file is read again in its place, and what was edited is a step back") {
  std::string file = temporary("reload.json"), good = plan_to_json(*small_plan()->plan);
  write_file_atomically(file, good);
  Session session;
  session.open({.source = file});
  wait_for(session);
  session.add(small_plan());
  session.activate(0);
  REQUIRE(session.apply(kMapped).ok());
  Snapshot edited = session.document();

  write_file_atomically(file, good.substr(0, good.size() / 2));
  REQUIRE(session.commands.run("reload").ok());
  wait_for(session);
  CHECK(session.document() == edited);
  CHECK(session.messages().size() == 1);
  std::filesystem::remove(file);
  REQUIRE(session.commands.run("reload").ok());
  wait_for(session);
  CHECK(session.document() == edited);

  write_file_atomically(file, good);
  REQUIRE(session.commands.run("reload").ok());
  wait_for(session);
  CHECK(session.files().size() == 2);
  CHECK(session.active() == 0);
  CHECK(!session.document()->edited);
  session.undo();
  CHECK(session.document() == edited);
  std::filesystem::remove(file);
}

TEST_CASE("what a search found is in no file that could be read again") {
  Session session;
  SearchRequest request;
  request.model.model = "mlp-tiny";
  request.topology = "summit";
  request.nodes = 1;
  request.strategy = "data-parallel";
  REQUIRE(session.search(request).ok());
  wait_for(session);
  REQUIRE(session.document());
  CHECK(session.document()->found);
  CHECK(!session.commands.run("reload").ok());
}

TEST_CASE("a plan that was closed and opened again is simulated again") {
  Session session;
  Snapshot plan = small_plan();
  session.add(plan);
  wait_for(session);
  session.close(0);
  session.add(plan);
  wait_for(session);
  REQUIRE(session.prediction());
  CHECK(session.prediction()->whole);
}

TEST_CASE("a simulation that was cancelled can be started again") {
  Session session;
  {
    BusyPool busy(session.jobs);
    session.add(small_plan());
    session.poll();
    CHECK(!session.simulation_stopped());
    session.cancel();
  }
  wait_for(session);
  CHECK(session.simulation_stopped());
  REQUIRE(session.commands.run("simulate").ok());
  CHECK(!session.simulation_stopped());
  wait_for(session);
  CHECK(session.prediction()->whole);
  CHECK(!session.commands.run("simulate").ok());
}

TEST_CASE("a saved plan has the time of its own, on the machine as it is") {
  std::string file = temporary("saved.json");
  Session session;
  session.add(small_plan());
  REQUIRE(session.apply(kMapped).ok());
  CHECK(session.document()->plan->prediction.iteration.count == 0);
  PlanPrediction whole = Predictor().whole(*session.document());
  auto check = [&] {
    REQUIRE(session.commands.run("save_plan", {{"file", file}}).ok());
    Prediction saved = load_plan(file).prediction;
    CHECK(saved.iteration == whole.iteration);
    CHECK(saved.peak_memory == whole.peak());
    CHECK(saved.communicated == whole.communicated);
  };
  check();  // nothing is simulated yet
  wait_for(session);
  check();
  REQUIRE(session.apply({"set_scale", {{"what", "device"}, {"factor", "2"}}}).ok());
  wait_for(session);
  CHECK(session.prediction()->iteration < whole.iteration);
  check();
  std::filesystem::remove(file);
}

TEST_CASE("what is saved is the document for which the path was asked") {
  std::string file = temporary("asked.json");
  Session session;
  session.add(small_plan());
  session.open({.source = "mlp-tiny", .topology = "summit", .nodes = 1, .devices = 2});
  wait_for(session);
  session.activate(0);
  std::function<void(const std::string&)> go_on;
  session.asks_path = [&](const std::string&, const std::string&, std::function<void(const std::string&)> with) {
    go_on = std::move(with);
  };
  REQUIRE(session.commands.run("save_plan").ok());
  session.activate(1);
  go_on(file);
  CHECK(load_plan(file).model.name == "bert-tiny");
  std::filesystem::remove(file);
}

TEST_CASE("long work stands in nobody's way") {
  Jobs jobs(1);
  std::atomic<bool> go_on{false};
  bool completed = false, ended = false;
  for (int i = 0; i < 3; ++i)
    jobs.submit_long("search",
                     [&](JobState& state) -> Jobs::Completion {
                       while (!go_on && !state.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                       return [&] { ended = true; };
                     },
                     {});
  jobs.submit("layout", [&](JobState&) -> Jobs::Completion { return [&] { completed = true; }; }, {});
  auto poll_until = [&](auto condition) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      jobs.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      REQUIRE(std::chrono::steady_clock::now() < end);
    }
  };
  poll_until([&] { return completed; });
  CHECK(!ended);
  CHECK(jobs.running().size() == 3);
  go_on = true;
  poll_until([&] { return jobs.idle(); });
  CHECK(ended);
}

TEST_CASE("facts are of the machine in front, and certificates of the machine as it is") {
  Snapshot plan = small_plan();
  CHECK(selection_facts(*plan, Selection::of(DeviceId(20)), nullptr).empty());
  CHECK(selection_facts(*plan, Selection::of(LinkId(1 << 30)), nullptr).empty());
  auto has = [](const Facts& facts, const std::string& label) {
    return std::any_of(facts.lines.begin(), facts.lines.end(), [&](const auto& line) { return line.first == label; });
  };
  Plan bounded = *plan->plan;
  bounded.search.lower_bound = {1'000'000};
  Document document = *plan;
  document.plan = std::make_shared<const Plan>(bounded);
  CHECK(has(document_facts(document, nullptr), "no plan is below"));
  document.scales = {parse_scale("device=8")};
  CHECK(!has(document_facts(document, nullptr), "no plan is below"));
}
