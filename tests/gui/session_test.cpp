#include "gui/session/session.h"

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "gui/panels/panel.h"
#include "gui/session/script.h"
#include "gui/session/state.h"
#include "tests/gui/support.h"
#include "tests/gui/wait.h"
#include "tests/support/paths.h"
#include "tests/support/seed.h"

using namespace unity;
using namespace unity::gui;

namespace {

// An edit that fits the document, or (one in eight) does not.
Edit random_edit(const Document& document, std::mt19937_64& random) {
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  if (below(4) == 0) {
    const char* whats[] = {"link:nvlink", "link", "device", "link:xbus", "device.launch"};
    const char* factors[] = {"2", "0.5", "1", "4", "1.25"};
    if (below(8) == 0) return {"reset_scales", {}};
    return {"set_scale", {{"what", whats[below(5)]}, {"factor", factors[below(5)]}}};
  }
  const Plan& plan = *document.plan;
  if (below(12) == 0) {  // fits at most once at each place
    const char* rules[] = {"fuse_attention", "unfuse_attention"};
    return {"apply_rule", {{"rule", rules[below(2)]}, {"match", std::to_string(below(2))}}};
  }
  for (;;) {
    NodeId id(static_cast<std::int64_t>(below(plan.pcg.size())));
    if (plan.pcg[id].is_parallelization()) continue;
    TaskGrid grid = node_grid(plan.pcg, id);
    auto all = mappings(grid, *document.topology, {0, static_cast<int>(document.topology->device_count())});
    if (grid.empty() || all.empty()) continue;
    MachineMapping mapping = all[below(all.size())];
    if (below(8) == 0) mapping.start += 3;
    std::string strides;
    for (int s : mapping.strides) strides += fmt::format("{} ", s);
    return {"set_mapping",
            {{"nodes", fmt::format("{}", id)}, {"start", std::to_string(mapping.start)}, {"strides", strides}}};
  }
}

}  // namespace

TEST_CASE("undo and redo over 1,000 random edits return byte-identical documents") {
  std::uint64_t seed = test::seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Snapshot first = small_plan();
  History history(first);
  std::vector<std::string> texts = {to_text(*first)};
  std::vector<Edit> done;
  for (int i = 0; i < 1000; ++i) {
    switch (random() % 4) {
      case 0:
        history.undo();
        break;
      case 1:
        history.redo();
        break;
      default: {
        Edit edit = random_edit(*history.now(), random);
        Result<Document> next = apply(*history.now(), edit);
        if (!next.ok()) continue;
        texts.resize(history.position() + 1);
        done.resize(history.position());
        history.push(std::make_shared<const Document>(std::move(*next)), edit);
        texts.push_back(to_text(*history.now()));
        done.push_back(edit);
      }
    }
    REQUIRE(to_text(*history.now()) == texts[history.position()]);
  }
  while (history.can_undo()) {
    history.undo();
    REQUIRE(to_text(*history.now()) == texts[history.position()]);
  }
  // The same edits on the first document make the same documents: they are values.
  Document again = *first;
  for (std::size_t i = 0; i < done.size(); ++i) {
    again = apply(again, done[i]).value();
    REQUIRE(to_text(again) == texts[i + 1]);
  }
}

TEST_CASE("an edit that does not fit says why and changes nothing") {
  Snapshot plan = small_plan();
  std::string before = to_text(*plan);
  auto why = [&](const Edit& edit) {
    Result<Document> result = apply(*plan, edit);
    return result.ok() ? std::string("fits") : result.error().message;
  };
  CHECK(why({"set_mappin", {}}).find("did you mean 'set_mapping'?") != std::string::npos);
  CHECK(why({"set_mapping", {}}) == "set_mapping: needs the argument 'nodes'");
  CHECK(why({"set_mapping", {{"nodes", "encoder.0.ffn.gelu"}, {"start", "0"}, {"strides", "9 9"}}}) != "fits");
  CHECK(why({"set_mapping", {{"nodes", "encoder.0.ffn.gel"}, {"start", "0"}, {"strides", "1 2"}}})
            .find("did you mean 'encoder.0.ffn.gelu'?") != std::string::npos);
  CHECK(why({"set_mapping", {{"nodes", "99999"}, {"start", "0"}, {"strides", "1"}}}).find("99999") !=
        std::string::npos);
  CHECK(why({"set_scale", {{"what", "link:nvlink"}, {"factor", "-1"}}}) != "fits");
  CHECK(why({"set_scale", {{"what", "link:token-ring"}, {"factor", "2"}}}) != "fits");
  CHECK(to_text(*plan) == before);
}

#ifdef UNITY_HAS_ONNX
TEST_CASE("an ONNX file opens without a loss, what it leaves open at a size that the title says") {
  Session session;
  session.open({.source = "docs/examples/tutorial/net.onnx"});
  wait_for(session);
  REQUIRE(session.document());
  CHECK(session.document()->title == "net.onnx, batch = 32");
  const Pcg& graph = session.document()->graph();
  REQUIRE(graph.outputs().size() == 1);
  CHECK(to_string(graph.shape(graph.outputs()[0])) == "f32[32, 10]");
  CHECK(std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& n) { return n.op->name() == "relu"; }));
}
#endif

TEST_CASE("a quick prediction is the whole one, before and after an edit") {
  Snapshot plan = small_plan();
  Predictor predictor;
  PlanPrediction quick = predictor.quick(*plan), whole = predictor.whole(*plan);
  CHECK(quick.iteration == whole.iteration);
  CHECK(quick.peak_memory == whole.peak_memory);
  Document faster = apply(*plan, {"set_scale", {{"what", "link"}, {"factor", "4"}}}).value();
  CHECK(predictor.quick(faster).iteration == predictor.whole(faster).iteration);
  CHECK(predictor.quick(faster).iteration < quick.iteration);
  CHECK(plan->plan->prediction.iteration == quick.iteration);
}

TEST_CASE("what operators take adds up to no more than the iteration has") {
  Snapshot plan = small_plan();
  PlanPrediction whole = Predictor().whole(*plan);
  REQUIRE(whole.nodes.size() == plan->graph().size());
  Picoseconds compute;
  for (const NodeCost& cost : whole.nodes) {
    CHECK(cost.compute <= whole.iteration);
    compute += cost.compute;
  }
  CHECK(compute.count > 0);
}

TEST_CASE("a session opens files in the background, predicts, and takes edits back") {
  Session session;
  session.open({.source = "bert-tiny", .topology = "summit", .nodes = 1, .devices = 4, .strategy = "expert"});
  wait_for(session);
  REQUIRE(session.document());
  REQUIRE(session.prediction());
  CHECK(session.prediction()->whole);
  Picoseconds before = session.prediction()->iteration;
  REQUIRE(session.commands.run("set_scale", {{"what", "device"}, {"factor", "2"}}).ok());
  wait_for(session);
  CHECK(session.prediction()->iteration < before);
  CHECK(session.prediction_before()->iteration == before);
  CHECK(session.last_edit_seconds() > 0);
  REQUIRE(session.commands.run("undo").ok());
  CHECK(session.prediction()->iteration == before);
  CHECK(!session.commands.run("undo").ok());
  CHECK(session.commands.run("und").error().message.find("did you mean 'undo'?") != std::string::npos);
}

TEST_CASE("a file that cannot be read is a message, and the session is as before") {
  Session session;
  session.open({.source = "mlp-tiny"});
  wait_for(session);
  Snapshot before = session.document();
  std::string broken = (std::filesystem::temp_directory_path() / "unity-gui-broken.json").string();
  write_file_atomically(broken, "{\"format\": \"something else\"}");
  for (const std::string& file : {std::string("no-such-model"), std::string("/nowhere/plan.json"), broken}) {
    session.open({.source = file});
    wait_for(session);
  }
  CHECK(session.messages().size() == 3);
  for (const Message& message : session.messages()) CHECK(message.error);
  CHECK(session.files().size() == 1);
  CHECK(session.document() == before);
  std::filesystem::remove(broken);
}

TEST_CASE("jobs report progress, fail with their message and can be cancelled") {
  Jobs jobs(1);
  std::string failed;
  std::atomic<bool> started{false};
  bool completed = false;
  auto poll_until_idle = [&] {
    while (!jobs.idle()) {
      jobs.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  jobs.submit(
      "fails", [](JobState&) -> Jobs::Completion { throw InputError("no"); },
      [&](const std::string& text) { failed = text; });
  poll_until_idle();
  CHECK(failed == "no");
  Job job = jobs.submit("waits",
                        [&](JobState& state) -> Jobs::Completion {
                          state.progress(0.5, "half");
                          started = true;
                          while (!state.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                          return [&] { completed = true; };
                        },
                        {});
  while (!started) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(job->fraction() == 0.5);
  CHECK(job->text() == "half");
  CHECK(jobs.running().size() == 1);
  job->cancel();
  poll_until_idle();
  CHECK(!completed);
}

TEST_CASE("every command has a label, and shortcuts can be read") {
  Session session;
  for (const Command& command : session.commands.all()) {
    INFO(command.name);
    CHECK(!command.label.empty());
    if (!command.shortcut.empty()) CHECK(parse_shortcut(command.shortcut).ok());
  }
  CHECK(parse_shortcut("Ctrl+Shift+P").value() == Shortcut{true, true, false, "P"});
  CHECK(!parse_shortcut("Hyper+P").ok());
}

TEST_CASE("the state file reads back what was written, and others are refused") {
  SavedState state;
  state.open = {{{"bert-large", "summit", 2, 0, "expert"}, "best so far", "1f.json", {"device=2"}, true, true},
                {.request = {"plan.json", "", 0, 0, "data-parallel"}}};
  state.active = 1;
  state.dark = true;
  state.selected = "encoder.0.ffn.gelu";
  state.splits = {{"vertical", 0.4}};
  state.visible = {{"machine", false}};
  state.tabs = {{"left", "pcg"}};
  state.panels = {{"pcg", "1 0 1\nencoder.0\"*24"}};
  CHECK(state_from_json(to_json(state), "s.json") == state);
  CHECK_THROWS_WITH(state_from_json("{", "s.json"), Catch::StartsWith("s.json: is no state"));
  CHECK_THROWS_WITH(state_from_json("{\"format\": \"unity-plan\"}", "s.json"),
                    Catch::StartsWith("s.json: is no state"));
  CHECK_THROWS_WITH(state_from_json("{\"format\": \"unity-gui-state\", \"version\": 99}", "s.json"),
                    "s.json: found version 99, expected at most 2");
}

TEST_CASE("documents of one title are told apart by what differs") {
  Session session;
  session.add(small_plan());
  CHECK(session.titles() == std::vector<std::string>{"bert-tiny on summit"});
  Document other = *small_plan();
  other.request.strategy = "unity";
  session.add(std::make_shared<const Document>(other));
  CHECK(session.titles() == std::vector<std::string>{"bert-tiny on summit, expert", "bert-tiny on summit, unity"});
  session.add(small_plan());
  CHECK(session.titles()[2] == "bert-tiny on summit, expert, 4 devices 3");
}

TEST_CASE("plans that are in no file come back as they were, and their copies go with them") {
  namespace fs = std::filesystem;
  fs::path folder = fs::temp_directory_path() / "kept";
  std::string path = (folder / "gui.json").string();
  Session session;
  session.add(small_plan());
  session.open({.source = "mlp-tiny"});
  wait_for(session);
  session.activate(0);
  REQUIRE(session.apply({"set_scale", {{"what", "device"}, {"factor", "2"}}}).ok());
  REQUIRE(session.apply({"set_mapping", {{"nodes", "encoder.0.ffn.gelu"}, {"start", "0"}, {"strides", "1 2"}}}).ok());
  std::vector<Snapshot> open = {session.files()[0]->history.now(), session.files()[1]->history.now()};
  SavedState state;
  state.active = 0;
  write_session(state, open, path);
  auto copies = [&] { return std::distance(fs::directory_iterator(folder / "gui.plans"), fs::directory_iterator()); };
  CHECK(copies() == 1);

  Session next;
  SavedState saved = state_from_json(read_file(path), path);
  CHECK(saved.open.size() == 2);
  next.restore(saved, path);
  CHECK(next.restoring() == saved.open);
  wait_for(next);
  CHECK(next.restoring().empty());
  REQUIRE(next.files().size() == 2);
  CHECK(next.active() == 0);
  CHECK(to_text(*next.document()) == to_text(*open[0]));
  CHECK(next.document()->edited);
  CHECK(next.files()[1]->history.now()->title == "mlp-tiny");
  CHECK(next.messages().empty());

  SECTION("a copy that is gone is searched anew, which is said") {
    fs::remove_all(folder / "gui.plans");
    Session third;
    third.restore(saved, path);
    wait_for(third);
    CHECK(third.files().size() == 2);
    REQUIRE(third.messages().size() == 1);
    CHECK(third.messages()[0].text.find("is not as it was") != std::string::npos);
  }
  SECTION("closed, its copy goes; so long as it is still to be opened, it stays") {
    state.open = {saved.open[0]};
    write_session(state, {}, path);
    CHECK(copies() == 1);
    write_session({}, {open[1]}, path);
    CHECK(!fs::exists(folder / "gui.plans"));
  }
  fs::remove_all(folder);
}

TEST_CASE("what panels keep comes back") {
  const PanelTools tools{TextMetrics(), UNITY_BINARY_DIR "/bin/unity-gui"};
  Session session;
  session.add(small_plan());
  std::vector<PanelInfo> panels = make_panels(tools), others = make_panels(tools);
  for (PanelInfo& info : panels) info.panel->add_commands(session);
  for (const char* command : {"pcg.weights", "pcg.layouts", "pcg.color_memory", "machine.mean", "timeline.links",
                              "timeline.critical", "rules.derivation", "experiments.plot"})
    static_cast<void>(session.commands.run(command));
  REQUIRE(session.commands.run("timeline.filter", {{"text", "gpu0 compute"}}).ok());
  REQUIRE(session.commands.run("rules.show", {{"rule", "fuse_attention"}}).ok());
  REQUIRE(session.commands.run("search.set", {{"budget", "100"}, {"model", "mlp-tiny"}}).ok());
  for (std::size_t p = 0; p < panels.size(); ++p) {
    INFO(panels[p].name);
    std::string kept = panels[p].panel->save();
    others[p].panel->load(kept);
    CHECK(others[p].panel->save() == kept);
  }
}

TEST_CASE("scripts say file and line of what they cannot do") {
  auto steps = parse_script(
      "- open: {file: bert-tiny, topology: summit}\n- wait\n- click: tab Machine\n- key: Ctrl+P\n- size: [800, 600]\n"
      "- command: {name: set_scale, what: link, factor: 2}\n",
      "s.yaml");
  REQUIRE(steps.size() == 6);
  CHECK(steps[0].arguments.at("topology") == "summit");
  CHECK(steps[1].number == 60);
  CHECK(steps[4].text == "800x600");
  CHECK(steps[5].place == "s.yaml:6");
  CHECK_THROWS_WITH(parse_script("- open: x\n- clik: y\n", "s.yaml"),
                    "s.yaml:2: found step 'clik' (did you mean 'click'?)");
  CHECK_THROWS_WITH(parse_script("a: b\n", "s.yaml"), "s.yaml:1: expected a list of steps");
  CHECK_THROWS_WITH(parse_script("- wait\n- size: 3\n", "s.yaml"), "s.yaml:2: size: expected [WIDTH, HEIGHT]");
  CHECK_THROWS_WITH(parse_script("- [\n", "s.yaml"), Catch::StartsWith("s.yaml:"));
}

TEST_CASE("opening something large says how far it is, and can be cancelled") {
  Session session;
  session.open({.source = "mlp-tiny"});
  wait_for(session);
  Snapshot before = session.document();
  session.open({.source = "bert-large", .topology = "summit", .nodes = 8, .strategy = "unity"});
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (session.jobs.running().empty() || session.jobs.running()[0]->fraction() <= 0) {
    session.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(std::chrono::steady_clock::now() < end);
  }
  CHECK(!session.jobs.running()[0]->text().empty());
  REQUIRE(session.commands.run("cancel").ok());
  wait_for(session);
  CHECK(session.document() == before);
  CHECK(session.files().size() == 1);
}

TEST_CASE("a document that was closed opens again, with its edits and what was before them") {
  Session session;
  CHECK(!session.commands.run("reopen").ok());
  session.add(small_plan());
  const std::string before = to_text(*session.document());
  session.apply({"set_scale", {{"what", "device"}, {"factor", "2"}}}).value();
  session.apply({"set_mapping", {{"nodes", "encoder.0.ffn.gelu"}, {"start", "0"}, {"strides", "1 2"}}}).value();
  const std::string edited = to_text(*session.document());
  session.messages().clear();
  REQUIRE(session.commands.run("close").ok());
  CHECK(session.files().empty());
  REQUIRE(session.messages().size() == 1);
  CHECK(session.messages()[0].text.find("is not in a file; Ctrl+Shift+T") != std::string::npos);
  REQUIRE(session.commands.run("reopen").ok());
  CHECK(to_text(*session.document()) == edited);
  session.undo(), session.undo();
  CHECK(to_text(*session.document()) == before);
  // The last ones are kept, one behind the other.
  for (int i = 0; i < 10; ++i) session.add(small_plan());
  while (session.file()) session.close(session.active());
  for (int i = 0; i < 8; ++i) REQUIRE(session.commands.run("reopen").ok());
  CHECK(!session.commands.run("reopen").ok());
  CHECK(session.files().size() == 8);
}
