// unity-gui as a user starts it, without a window. Skipped, saying so, where EGL has nothing to draw in.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "gui/app/window.h"
#include "tests/gui/support.h"
#include "tests/support/paths.h"

using namespace unity;
using namespace unity::gui;

namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("unity-gui-{}-{}", getpid(), name)).string();
}

std::vector<Widget> widgets_of(const std::string& json) {
  std::vector<Widget> widgets;
  auto rect = [](const nlohmann::json& r) { return Rect{r[0], r[1], r[2], r[3]}; };
  for (const auto& w : nlohmann::json::parse(json))
    widgets.push_back({w["name"], w["panel"], w["label"], rect(w["rect"]), rect(w["text"]), w["cut"], w["layer"]});
  return widgets;
}

std::string first_faults(const std::vector<Widget>& widgets) {
  std::string text;
  for (const std::string& fault : find_faults(widgets)) text += fault + "\n";
  return text;
}

// The widgets after a script, which ends with this code.
std::vector<Widget> after(const std::string& script, const std::string& options = {}, int code = 0) {
  std::string file = temporary("script.yaml"), dump = temporary("widgets.json");
  write_file_atomically(file, script + "- wait: 600\n- dump-widgets: " + dump + "\n");
  GuiRun run = run_gui(fmt::format("--no-state --script {} {}", file, options));
  INFO(run.err);
  REQUIRE(run.code == code);
  auto widgets = widgets_of(read_file(dump));
  std::filesystem::remove(file);
  std::filesystem::remove(dump);
  return widgets;
}

const Widget* find(const std::vector<Widget>& widgets, const std::string& name) {
  for (const Widget& w : widgets)
    if (w.name == name) return &w;
  return nullptr;
}

}  // namespace

TEST_CASE("faults are texts that overlap or are cut off") {
  Widget a{"a", "p", "abc", {0, 0, 30, 10}, {0, 0, 30, 10}, false, 0}, b = a, c = a;
  b.name = "b", b.text.x = 20;
  CHECK(find_faults({a, b}).size() == 1);
  b.text.x = 40;
  CHECK(find_faults({a, b}).empty());
  c.name = "c", c.layer = 1;  // a menu covers what is below
  CHECK(find_faults({a, c}).empty());
  c.cut = true;
  CHECK(find_faults({a, c}) == std::vector<std::string>{"'c' of panel 'p' is cut off: 'abc'"});
}

TEST_CASE("wrong usage and files end with 2 and one line that says why") {
  CHECK(run_gui("--no-such-option").code == 2);
  CHECK(run_gui("--size 3 --screenshot x.png").err ==
        "unity-gui: error: --size: found '3', expected WIDTHxHEIGHT of 64 to 16384 pixels\n");
  CHECK(run_gui("--script /nowhere.yaml").code == 2);
  CHECK(run_gui("--help").code == 0);
}

TEST_CASE("without a display a window cannot be opened, which is said") {
  GuiRun run = run_gui("--no-state");
  CHECK(run.code == 2);
  CHECK(run.err.starts_with("unity-gui: error: no display"));
}

TEST_CASE("bert-large on 192 GPUs shows no text that overlaps another one or is cut off") {
  if (no_opengl()) return;
  const std::string open = "- open: {file: bert-large, topology: summit, nodes: 32, strategy: expert}\n- wait: 600\n";
  auto widgets = after(open);
  CHECK(first_faults(widgets) == "");
  CHECK(find(widgets, "tab Machine"));
  CHECK(find(widgets, "node encoder.0*24"));
  // Nodes and devices can be told without zooming in.
  for (int node : {0, 13, 31}) CHECK(find(widgets, fmt::format("text node{}", node)));
  for (int device : {0, 77, 191}) CHECK(find(widgets, fmt::format("text {}", device)));
  widgets = after(open + "- click: device node5.socket1.gpu2\n");
  CHECK(find(widgets, "text Device node5.socket1.gpu2"));
  widgets = after(open +
                      "- command: {name: pcg.expand, block: encoder.0*24}\n- select: encoder.3.ffn.in.matmul\n"
                      "- command: pcg.show_selected\n- command: pcg.color_time\n",
                  "--theme dark --scale 1.5 --size 2400x1500");
  CHECK(first_faults(widgets) == "");
  CHECK(find(widgets, "node encoder.3.ffn.in.matmul"));
  CHECK(find(widgets, "level 0"));
}

TEST_CASE("a script clicks, types and edits") {
  if (no_opengl()) return;
  const std::string open =
      "- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 4, strategy: expert}\n- wait: 600\n";
  SECTION("a click selects, a double click expands") {
    auto widgets = after(open + "- double-click: node encoder.0*2\n");
    CHECK(find(widgets, "box encoder.0*2"));
    CHECK(find(widgets, "text 2 x encoder"));
  }
  SECTION("the palette runs commands") {
    CHECK(!find(after(open), "machine/canvas machine"));
    auto widgets = after(open + "- key: Ctrl+P\n- type: hide panel machine\n- key: Enter\n");
    CHECK(!find(widgets, "tab Machine"));
  }
  SECTION("the palette lists commands above the panels") {
    auto widgets = after(open + "- key: Ctrl+P\n");
    CHECK(find(widgets, "command undo"));
    CHECK(find(widgets, "command undo")->layer == 1);
    CHECK(first_faults(widgets) == "");
  }
  SECTION("a search finds operators in collapsed blocks and shows the chosen one") {
    auto widgets = after(open + "- click: search\n- type: softmax\n");
    CHECK(find(widgets, "text 2 found"));
  }
  SECTION("an edit shows the time before and after, and undo takes it back") {
    std::string edit = "- command: {name: set_scale, what: device, factor: 2}\n- wait: 600\n";
    auto changed = after(open + edit);
    CHECK(std::any_of(changed.begin(), changed.end(),
                      [](const Widget& w) { return w.label.find(" before)") != std::string::npos; }));
    auto back = after(open + edit + "- key: Ctrl+Z\n");
    CHECK(std::none_of(back.begin(), back.end(),
                       [](const Widget& w) { return w.label.find(" before)") != std::string::npos; }));
  }
  SECTION("a broken file is a message in the window") {
    auto widgets = after(open + "- open: /nowhere/plan.json\n", {}, 2);
    CHECK(std::any_of(widgets.begin(), widgets.end(),
                      [](const Widget& w) { return w.layer == 2 && w.label.starts_with("/nowhere/plan.json"); }));
    CHECK(find(widgets, "tab Machine"));
  }
}

TEST_CASE("a step that cannot be done ends the script with its place") {
  if (no_opengl()) return;
  std::string file = temporary("wrong.yaml");
  write_file_atomically(file, "- open: mlp-tiny\n- wait: 600\n- click: tab Grph\n");
  GuiRun run = run_gui("--no-state --script " + file);
  CHECK(run.code == 2);
  CHECK(run.err.find(file + ":3: there is no widget 'tab Grph' (did you mean 'tab Graph'?)") != std::string::npos);
  std::filesystem::remove(file);
}

TEST_CASE("the state is restored at the next start") {
  if (no_opengl()) return;
  std::string state = temporary("state.json"), file = temporary("state.yaml"), dump = temporary("restored.json");
  write_file_atomically(
      file,
      "- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 4, strategy: expert}\n- wait: 600\n"
      "- select: encoder.0.ffn.gelu\n- command: toggle_theme\n- command: hide_machine\n");
  GuiRun run = run_gui(fmt::format("--state {} --script {}", state, file));
  INFO(run.err);
  REQUIRE(run.code == 0);
  run = run_gui(fmt::format("--state {} --dump-widgets", state));
  REQUIRE(run.code == 0);
  auto widgets = widgets_of(run.out);
  CHECK(!find(widgets, "tab Machine"));
  CHECK(find(widgets, "text encoder.0.ffn.gelu"));
  for (const std::string& f : {state, file, dump}) std::filesystem::remove(f);
}

TEST_CASE("a screenshot is a PNG of the size asked for") {
  if (no_opengl()) return;
  std::string file = temporary("shot.png");
  REQUIRE(run_gui("mlp-tiny --screenshot " + file + " --size 640x480").code == 0);
  std::string png = read_file(file);
  CHECK(png.substr(1, 3) == "PNG");
  CHECK(static_cast<unsigned char>(png[18]) * 256 + static_cast<unsigned char>(png[19]) == 640);
  std::filesystem::remove(file);
}

TEST_CASE("views export as SVG and PNG") {
  if (no_opengl()) return;
  std::string file = temporary("export.yaml"), svg = temporary("graph.svg"), png = temporary("machine.png");
  write_file_atomically(
      file, fmt::format("- open: {{file: bert-tiny, topology: summit, nodes: 1, strategy: expert}}\n- wait: 600\n"
                        "- command: {{name: export_svg, file: {}}}\n- command: show_machine\n"
                        "- command: {{name: export_png, file: {}}}\n- wait: 600\n",
                        svg, png));
  GuiRun run = run_gui("--no-state --script " + file);
  INFO(run.err);
  REQUIRE(run.code == 0);
  CHECK(read_file(svg).find("2 x encoder") != std::string::npos);
  CHECK(read_file(png).substr(1, 3) == "PNG");
  for (const std::string& f : {file, svg, png}) std::filesystem::remove(f);
}

TEST_CASE("a window opens on a display and does what a script says") {
  if (no_opengl()) return;
  if (std::system("command -v Xvfb >/dev/null") != 0) {
    std::printf("skipped: no Xvfb\n");
    return;
  }
  std::string steps = temporary("window.yaml"), runs = temporary("window.sh");
  write_file_atomically(steps, "- open: mlp-tiny\n- wait: 600\n- click: tab Graph\n- command: quit\n");
  // Xvfb chooses a free display and says which.
  write_file_atomically(
      runs, fmt::format("coproc Xvfb -displayfd 1 -screen 0 1280x800x24 2>/dev/null\nread -r n <&${{COPROC[0]}}\n"
                        "DISPLAY=:$n timeout 60 {}/bin/unity-gui --no-state --window --script {}\n"
                        "code=$?\nkill $COPROC_PID\nexit $code\n",
                        UNITY_BINARY_DIR, steps));
  CHECK(std::system(fmt::format("bash {} >/dev/null 2>&1", runs).c_str()) == 0);
  for (const std::string& f : {steps, runs}) std::filesystem::remove(f);
}

TEST_CASE("in small windows, and with large letters, no text overlaps another one or is cut off") {
  if (no_opengl()) return;
  std::string folder = temporary("few");
  std::filesystem::create_directories(folder);
  write_file_atomically(folder + "/results.json", R"({"format": "unity-results", "version": 1, "rows": [
    {"point": "p", "model": "bert-large", "devices": 2, "variant": "unity", "iteration_seconds": 0.5, "samples_per_second": 4},
    {"point": "q", "model": "bert-large", "devices": 4, "variant": "unity", "iteration_seconds": 0.3, "samples_per_second": 7}]})");
  // Several documents, so that panels offer to compare them and the bar has more titles than room.
  std::string script;
  for (const char* source : {"{file: bert-tiny, topology: summit, nodes: 1, devices: 2}", "mlp-tiny",
                             "{file: bert-tiny, topology: summit, nodes: 2}", "{file: mlp-tiny, topology: dgx-h100}",
                             "{file: bert-tiny, topology: summit, nodes: 1, devices: 4, strategy: expert}"})
    script += fmt::format("- open: {}\n- wait: 600\n", source);
  script += "- select: encoder.0.ffn.in.matmul\n";
  std::vector<std::string> dumps;
  auto look = [&](const std::string& steps) {
    dumps.push_back(temporary(fmt::format("small-{}.json", dumps.size())));
    script += steps + "- wait: 600\n- dump-widgets: " + dumps.back() + "\n";
  };
  look("- command: show_machine\n");
  look("- command: machine.mean\n- command: {name: set_scale, what: device, factor: 2}\n");
  look("- command: pcg.color_time\n- click: compare\n- click: \"compare: mlp-tiny\"\n");
  look("- command: show_rules\n- command: {name: rules.show, rule: fuse_attention}\n");
  look("- command: rules.derivation\n");
  look("- command: show_search\n- command: search.settings\n");
  look("- command: show_timeline\n");
  look("- command: taller\n");
  look("- command: taller\n- command: show_machine\n- open: " + folder + "\n- wait: 600\n");
  look("- command: experiments.plot\n");
  look("- key: Ctrl+P\n");
  std::string file = temporary("small.yaml");
  write_file_atomically(file, script);
  for (const std::string& options :
       {std::string("--size 1200x800"), std::string("--size 1600x1000 --scale 1.5 --theme dark")}) {
    GuiRun run = run_gui(fmt::format("--no-state --script {} {}", file, options));
    INFO(run.err);
    REQUIRE(run.code == 0);
    for (const std::string& dump : dumps) {
      INFO(options << " " << dump);
      CHECK(first_faults(widgets_of(read_file(dump))) == "");
    }
  }
  for (const std::string& dump : dumps) std::filesystem::remove(dump);
  std::filesystem::remove(file);
  std::filesystem::remove_all(folder);
}

TEST_CASE("letters in their order find commands") {
  CHECK(fuzzy_match("Graph: show all", "gsa"));
  CHECK(!fuzzy_match("Undo", "ou"));
}

TEST_CASE("the timeline of bert-large shows no text that overlaps another one or is cut off") {
  if (no_opengl()) return;
  const std::string open =
      "- open: {file: bert-large, topology: summit, nodes: 2, strategy: expert}\n- wait: 600\n"
      "- command: show_timeline\n- command: taller\n- wait: 600\n";
  auto widgets = after(open);
  CHECK(first_faults(widgets) == "");
  CHECK(find(widgets, "lane node0.socket0.gpu0 compute"));
  widgets = after(open + "- select: encoder.3.ffn.in.matmul\n- command: timeline.zoom_selection\n");
  CHECK(first_faults(widgets) == "");
  CHECK(find(widgets, "span matmul encoder.3.ffn.in.matmul"));
  widgets = after(open + "- command: {name: timeline.range, from: 0.3, to: 0.31}\n- command: timeline.zoom_selection\n",
                  "--theme dark --scale 1.5 --size 2400x1500");
  CHECK(first_faults(widgets) == "");
}

TEST_CASE("a trace alone has a timeline, and a broken one is a message") {
  if (no_opengl()) return;
  std::string trace = temporary("trace.json"), broken = temporary("broken.json");
  write_file_atomically(trace,
                        R"({"format": "unity-trace", "version": 3, "source": "measured", "program": "1",
                            "iteration_ps": 100000, "spans": [[0, 0, 0, 0, 60000], [1, 0, 0, 70000, 100000]], "memory": [],
                            "links": [], "link_use": []})");
  write_file_atomically(broken, R"({"format": "unity-trace", "version": 3, "spans": 7})");
  auto widgets = after("- open: " + trace + "\n- wait: 600\n- command: show_timeline\n- wait: 600\n");
  CHECK(find(widgets, "lane device 0 compute"));
  CHECK(find(widgets, "span task 1"));
  CHECK(first_faults(widgets) == "");
  widgets = after("- open: mlp-tiny\n- wait: 600\n- open: " + broken + "\n", {}, 2);
  CHECK(std::any_of(widgets.begin(), widgets.end(),
                    [&](const Widget& w) { return w.layer == 2 && w.label.starts_with(broken.substr(0, 20)); }));
  for (const std::string& f : {trace, broken}) std::filesystem::remove(f);
}

TEST_CASE("a click on a span selects its operator everywhere") {
  if (no_opengl()) return;
  auto widgets = after(
      "- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 4, strategy: expert}\n- wait: 600\n"
      "- command: show_timeline\n- select: encoder.0.ffn.in.matmul\n- command: timeline.zoom_selection\n- wait: 600\n"
      "- select: encoder.1.ffn.in.matmul\n- click: span matmul encoder.0.ffn.in.matmul\n");
  CHECK(find(widgets, "text Mapping of encoder.0.ffn.in.matmul"));
}

TEST_CASE("the rules panel shows a rule, its matches and what applying it costs") {
  if (no_opengl()) return;
  const std::string open =
      "- open: {file: bert-large, topology: summit, nodes: 2, strategy: expert}\n- wait: 600\n"
      "- command: show_rules\n- command: {name: rules.show, rule: fuse_attention}\n- wait: 600\n";
  auto widgets = after(open);
  CHECK(first_faults(widgets) == "");
  CHECK(find(widgets, "text source"));
  CHECK(find(widgets, "match 0"));
  widgets = after(open + "- click: apply rule\n");
  CHECK(first_faults(widgets) == "");
  CHECK(std::any_of(widgets.begin(), widgets.end(),
                    [](const Widget& w) { return w.label.find("% by the last rule") != std::string::npos; }));
  widgets = after(open + "- click: derivation\n- wait: 600\n- click: next step\n");
  CHECK(first_faults(widgets) == "");
  CHECK(find(widgets, "step 0"));
}

TEST_CASE("the search panel shows no text that overlaps another one or is cut off") {
  if (no_opengl()) return;
  const std::string set =
      "- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 2, strategy: expert}\n- wait: 600\n"
      "- command: show_search\n"
      "- command: {name: search.set, model: bert-tiny, nodes: 1, devices: 2, pareto: \"true\"}\n";
  for (const std::string& options :
       {std::string("--theme light"), std::string("--theme dark --scale 1.5 --size 2400x1500")}) {
    auto widgets = after(set + "- click: start search\n- wait: 600\n", options);
    CHECK(first_faults(widgets) == "");
    CHECK(find(widgets, "text best so far"));
    CHECK(find(widgets, "mark 0"));
    CHECK(
        std::any_of(widgets.begin(), widgets.end(), [](const Widget& w) { return w.label == "bert-tiny on summit"; }));
  }
  auto widgets = after(set + "- command: search.settings\n");
  CHECK(first_faults(widgets) == "");
  CHECK(find(widgets, "setting alpha"));
  // A setting that is none says so.
  widgets = after(set + "- click: setting seed\n- type: x\n");
  CHECK(std::any_of(widgets.begin(), widgets.end(),
                    [](const Widget& w) { return w.label.find("expected a number") != std::string::npos; }));
}

TEST_CASE("experiments: table, plot and figures show no text that overlaps another one or is cut off") {
  if (no_opengl()) return;
  std::string folder = temporary("sweep");
  std::filesystem::create_directories(folder);
  std::string rows;
  for (const char* variant : {"data-parallel", "unity"})
    for (int devices : {2, 4, 8, 16})
      rows += fmt::format(
          R"({}{{"point": "p", "model": "bert-large", "devices": {}, "variant": "{}", "iteration_seconds": 0.{}, "samples_per_second": {}}})",
          rows.empty() ? "" : ",", devices, variant, devices, devices * (variant[0] == 'u' ? 30 : 20));
  write_file_atomically(folder + "/results.json",
                        R"({"format": "unity-results", "version": 1, "rows": [)" + rows + "]}");
  write_file_atomically(
      folder + "/experiment.yaml",
      "format: unity-experiment\nversion: 1\nname: small\nmodels: [bert-large]\ntopologies: [laptop]\n"
      "strategies: [unity, data-parallel]\nfigures:\n"
      "  - {name: speed, x: devices, y: samples_per_second, published: {unity: {2: 70, 4: [100, 120]}}}\n");
  std::string csv = temporary("rows.csv"), svg = temporary("figure.svg");
  const std::string open = "- drop: " + folder + "\n- wait: 600\n";
  for (const std::string& options :
       {std::string("--theme light"), std::string("--theme dark --scale 1.5 --size 2400x1500")}) {
    auto widgets = after(open, options);
    CHECK(first_faults(widgets) == "");
    CHECK(find(widgets, "text 8 of 8 points"));
    CHECK(find(widgets, "sort devices"));
    widgets = after(open + "- command: experiments.plot\n- wait: 600\n", options);
    CHECK(first_faults(widgets) == "");
    CHECK(find(widgets, "axis x"));
    widgets = after(open + "- click: as figures\n- wait: 600\n", options);
    CHECK(first_faults(widgets) == "");
    CHECK(find(widgets, "text unity (paper)"));
  }
  auto widgets = after(open + "- click: filter rows\n- type: devices>4\n- wait: 600\n- click: row 2\n" +
                       "- command: {name: experiments.export_csv, file: " + csv +
                       "}\n- click: as figures\n- wait: 600\n" + "- command: {name: export_svg, file: " + svg + "}\n");
  CHECK(read_file(csv).starts_with("devices,variant,"));
  CHECK(read_file(csv).find("\n4,") == std::string::npos);
  CHECK(read_file(svg).find("unity (paper)") != std::string::npos);
  for (const std::string& f : {csv, svg}) std::filesystem::remove(f);
  std::filesystem::remove_all(folder);
}

TEST_CASE("broken, foreign, newer and cut off files that are dropped are messages, and the session stays as it was") {
  if (no_opengl()) return;
  Snapshot plan = small_plan();
  std::string good = plan_to_json(*plan->plan);
  std::string newer = good;
  std::size_t at = newer.find("\"version\"");
  REQUIRE(at != std::string::npos);
  at = newer.find(std::to_string(Plan::kVersion), at);
  newer.replace(at, 1, "99");
  std::string sweep = R"({"format": "unity-results", "version": 1, "rows": [{"point": "a", "model": "bert")";
  std::string script = "- open: mlp-tiny\n- wait: 600\n";
  std::vector<std::string> files;
  auto add = [&](const std::string& name, const std::string& text) {
    files.push_back(temporary(name));
    write_file_atomically(files.back(), text);
    script += "- drop: " + files.back() + "\n- wait: 600\n";
  };
  add("cut.json", good.substr(0, good.size() / 2));
  add("newer.json", newer);
  add("sweep.json", sweep);
  add("picture.json", std::string("\x89PNG\r\n\x1a\n\0\0", 10));
  add("notes.txt", "a file of something else");
  add("broken.onnx", "not a model");
  auto widgets = after(script, {}, 2);
  for (const std::string& file : files) {
    INFO(file);
    CHECK(std::any_of(widgets.begin(), widgets.end(), [&](const Widget& w) {
      return w.layer == 2 && w.label.find(std::filesystem::path(file).filename().string()) != std::string::npos;
    }));
    std::filesystem::remove(file);
  }
  CHECK(std::any_of(widgets.begin(), widgets.end(), [](const Widget& w) {
    return w.layer == 2 && w.label.find("version is 99") != std::string::npos;
  }));
  CHECK(find(widgets, "document 0"));
  CHECK(!find(widgets, "document 1"));
}

TEST_CASE("without OpenGL there is no picture, which is said") {
  if (no_opengl()) return;
  setenv("__EGL_VENDOR_LIBRARY_DIRS", "/nowhere", 1);
  GuiRun run = run_gui("mlp-tiny --screenshot never.png");
  unsetenv("__EGL_VENDOR_LIBRARY_DIRS");
  CHECK(run.code == 2);
  CHECK(run.err.starts_with("unity-gui: error: no OpenGL"));
  CHECK(!std::filesystem::exists("never.png"));
}

TEST_CASE("saving a plan asks for its path") {
  if (no_opengl()) return;
  std::string file = temporary("saved.json");
  auto widgets = after(
      "- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 2, strategy: expert}\n- wait: 600\n"
      "- key: Ctrl+S\n");
  CHECK(first_faults(widgets) == "");
  CHECK(find(widgets, "path text")->label == "bert-tiny-on-summit.edited.json");
  after(
      "- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 2, strategy: expert}\n- wait: 600\n"
      "- command: {name: save_plan, file: " +
      file + "}\n");
  CHECK(plan_from_json(read_file(file), file).devices == 2);
  std::filesystem::remove(file);
}

TEST_CASE("charts that are scrolled out of a small panel cover nothing") {
  if (no_opengl()) return;
  auto widgets = after(
      "- open: {file: bert-tiny, topology: summit, nodes: 1, devices: 2, strategy: expert}\n- wait: 600\n"
      "- command: show_search\n- command: {name: search.set, model: mlp-tiny, nodes: 1, devices: 2}\n"
      "- command: search.settings\n- command: search.start\n- wait: 600\n",
      "--size 1200x700");
  const Widget *charts = find(widgets, "charts search"), *below = find(widgets, "tab Info");
  REQUIRE(charts);
  REQUIRE(below);
  CHECK(charts->rect.bottom() <= below->rect.y);
  CHECK(first_faults(widgets).find("'setting") == std::string::npos);
}
