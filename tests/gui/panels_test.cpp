// Panels with several documents open: each shows the one in front.
#include <catch2/catch.hpp>

#include "core/trace/trace_json.h"
#include "gui/app/keeper.h"
#include "tests/gui/headless.h"
#include "tests/gui/support.h"

using namespace unity;
using namespace unity::gui;

namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("unity-gui-{}-{}", getpid(), name)).string();
}

}  // namespace

TEST_CASE("lanes of a larger machine that is compared select nothing of the one in front") {
  std::unique_ptr<App> app = headless_app(1600, 1000);
  if (!app) return;
  run_steps(
      *app,
      "- command: show_timeline\n- command: taller\n"
      "- open: {file: mlp-tiny, topology: summit, nodes: 2}\n- wait\n"
      "- open: {file: mlp-tiny, topology: summit, nodes: 1}\n- wait\n"
      "- command: {name: timeline.compare, document: 1}\n- command: {name: timeline.filter, text: node1}\n- wait\n"
      "- click: lane node1.socket0.gpu0 compute\n");
  CHECK(app->session().selection().kind == Selection::Kind::none);
  run_steps(*app,
            "- command: {name: timeline.filter, text: \"node0.socket0.gpu1 compute\"}\n- wait\n"
            "- click: lane node0.socket0.gpu1 compute\n- command: show_info\n- wait\n");
  CHECK(app->session().selection() == Selection::of(DeviceId(1)));
  CHECK(labels_with(*app, "Device node0.socket0.gpu1") == 1);
}

TEST_CASE("what is to be shown of one graph is not looked for in another") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  const std::string open =
      "- open: mlp-tiny\n- wait\n- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 4, strategy: expert}\n";
  SECTION("the other one is in front before its layout is ready") {
    run_steps(*app, open +
                        "- wait\n- select: encoder.1.ffn.out.matmul\n- command: pcg.show_selected\n"
                        "- command: next_document\n- wait\n");
  }
  SECTION("the layout is still that of the other one") {
    run_steps(*app, "- open: mlp-tiny\n- wait\n- command: show_experiments\n" + open.substr(open.rfind("- open")) +
                        "- wait\n- select: encoder.1.ffn.out.matmul\n- key: Enter\n- wait\n");
  }
  CHECK(app->session().document());
}

TEST_CASE("the machine shows the load of the plan in front alone") {
  std::unique_ptr<App> app = headless_app(1600, 1000);
  if (!app) return;
  Session& session = app->session();
  session.add(small_plan());
  REQUIRE(app->settle(60));
  run_steps(*app, "- command: show_machine\n- wait\n");
  CHECK(labels_with(*app, "% busy") > 0);
  {
    BusyPool busy(session.jobs);
    session.add(open_document({.source = "mlp-tiny", .topology = "dgx-v100", .nodes = 1, .devices = 4}));
    session.poll();
    session.cancel();
  }
  REQUIRE(app->settle(60));
  CHECK(session.simulation_stopped());
  CHECK(labels_with(*app, "% busy") == 0);
}

TEST_CASE("a plan's own measurement stands below it, another trace under its own name") {
  std::unique_ptr<App> app = headless_app(1600, 1000);
  if (!app) return;
  Session& session = app->session();
  session.add(small_plan());
  REQUIRE(app->settle(60));
  auto trace_of = [&](const std::string& title, Hash program) {
    auto trace =
        std::make_shared<Trace>(session.files()[0]->prediction(session.files()[0]->history.now())->result.trace);
    trace->source = "measured";
    trace->program = program;
    auto document = std::make_shared<Document>();
    document->title = title;
    document->trace = trace;
    document->model = std::make_shared<const Pcg>();
    session.add(document);
  };
  Hash own = session.prediction()->result.trace.program;
  trace_of("other.json", own + 1);
  run_steps(*app, "- command: show_timeline\n- command: taller\n- wait\n");
  CHECK(labels_with(*app, "measured", "timeline") == 0);
  CHECK(labels_with(*app, "other.json", "timeline") > 0);
  trace_of("own.json", own);
  trace_of("third.json", own + 2);
  run_steps(*app, "- wait\n");
  CHECK(labels_with(*app, "measured", "timeline") > 0);
}

TEST_CASE("of documents with the same title, the one that is clicked is compared with") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  for (int i = 0; i < 3; ++i) app->session().add(small_plan());
  run_steps(*app, "- wait\n- click: compare\n");
  std::vector<Point> entries;
  for (const Widget& w : app->window().widgets())
    if (w.name.starts_with("compare: bert")) {
      entries.push_back(w.rect.center());
      CHECK(w.label == app->session().titles()[entries.size() - 1]);
    }
  REQUIRE(entries.size() == 3);
  FrameInput input;
  input.mouse = entries[1];
  for (bool down : {false, true, true, false, false}) {
    input.down = down;
    app->frame(&input);
  }
  FrameInput nothing;
  app->frame(&nothing);
  CHECK(labels_with(*app, "removed since " + app->session().titles()[1]) == 1);
}

TEST_CASE("a search for this document takes its devices and the sizes of its model") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  run_steps(*app,
            "- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 4, strategy: expert}\n- wait\n"
            "- command: {name: search.set, batch-per-gpu: 7, layers: 9}\n- command: search.as_document\n"
            "- command: {name: search.set, strategy: data-parallel}\n- command: search.start\n- wait\n");
  REQUIRE(app->session().files().size() == 2);
  const Plan &was = *app->session().files()[0]->history.now()->plan, &now = *app->session().document()->plan;
  CHECK(now.devices == 4);
  CHECK(now.model.options == was.model.options);
  CHECK(now.global_batch == was.global_batch);
}

TEST_CASE("an error that ends a script keeps the session, and a figure that is none is refused") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  std::string folder = temporary("ends"), path = folder + "/gui.json";
  std::filesystem::create_directories(folder);
  write_file_atomically(folder + "/results.json",
                        R"({"format": "unity-results", "version": 1, "rows": [{"point": "p", "devices": 2}]})");
  auto fails = [&] {
    Keeper keeper(*app, path);
    run_steps(*app, "- drop: " + folder + "\n- wait\n- command: {name: experiments.figures, figure: -1}\n");
  };
  CHECK_THROWS_WITH(fails(), Catch::Contains("found -1, expected a number from 0 on"));
  CHECK(state_from_json(read_file(path), path).open.size() == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("the end of the window waits for no other work") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  std::string folder = temporary("last"), path = folder + "/gui.json";
  BusyPool busy(app->session().jobs);
  app->session().add(small_plan());
  Keeper keeper(*app, path);
  keeper.note();
  keeper.finish();
  CHECK(state_from_json(read_file(path), path).open.size() == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a view that is exported as SVG is SVG, whatever its file is called") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  std::string file = temporary("view");
  run_steps(*app, "- open: mlp-tiny\n- wait\n- command: {name: export_svg, file: " + file + "}\n- wait\n");
  CHECK(read_file(file).find("<svg") != std::string::npos);
  std::filesystem::remove(file);
}
