// unity-gui. Exit codes as of unity: 0 done, 1 failed, 2 wrong usage or input, or no display.
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <signal.h>
#include <unistd.h>

#include "core/base/text.h"
#include "gui/app/app.h"
#include "gui/app/bench.h"
#include "gui/app/keeper.h"
#include "gui/app/script_runner.h"
#include "gui/layout/layout.h"
#include "gui/session/state.h"
#include "gui/session/state_lock.h"

namespace unity::gui {
namespace {

const auto kStarted = std::chrono::steady_clock::now();
constexpr int kDone = 0, kFailed = 1, kWrongInput = 2;

struct Options {
  std::vector<std::string> sources;
  std::string topology, strategy = "data-parallel";
  int nodes = 0, devices = 0;
  std::string script, screenshot, size = "1600x1000", theme, state;
  double scale = 1;
  bool dump_widgets = false, bench = false, no_state = false, window = false;

  bool headless() const { return !window && (!script.empty() || !screenshot.empty() || dump_widgets || bench); }
};

std::string program_path() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string("unity-gui") : self.string();
}

std::vector<OpenRequest> requests_of(const Options& o) {
  std::vector<OpenRequest> requests;
  for (const std::string& source : o.sources) {
    OpenRequest request{source, o.topology, o.nodes, o.devices, o.strategy};
    requests.push_back(request);
  }
  return requests;
}

// Of a state that cannot be read, as it may be that of a newer version: nothing is written over it.
std::string set_aside(std::string& state_path, const std::string& why) {
  try {
    return fmt::format("{}; it was moved to {}", why, move_state_aside(state_path));
  } catch (const InputError& error) {
    state_path.clear();
    return fmt::format("{}; nothing is kept, as {}", why, error.what());
  }
}

// The files of the command line, else those of the last time, else the sample. An empty path: nothing can be kept.
void open_documents(App& app, const Options& o, std::string& state_path) {
  std::vector<OpenRequest> requests = requests_of(o);
  bool restored = false, last = requests.empty();
  if (!state_path.empty() && std::filesystem::exists(state_path)) {
    try {
      SavedState state = state_from_json(read_file(state_path), state_path);
      app.window().load(state);
      if (last)
        app.session().restore(state, state_path);
      else
        app.session().keep(state, state_path, requests);
      restored = true;
    } catch (const InputError& error) {
      app.session().complain(set_aside(state_path, error.what()));
    }
  }
  if (!o.theme.empty()) app.session().dark = o.theme == "dark";
  if (requests.empty() && !restored && o.script.empty() && !o.bench) requests = {sample_request()};
  for (const OpenRequest& request : requests) app.session().open(request);
}

int show(const Options& o) {
  AppOptions options{o.headless(), 0, 0, static_cast<float>(o.scale), program_path()};
  if (std::sscanf(o.size.c_str(), "%dx%d", &options.width, &options.height) != 2 || options.width < 64 ||
      options.height < 64 || options.width > 16384 || options.height > 16384)
    throw_input_error("--size: found '{}', expected WIDTHxHEIGHT of 64 to 16384 pixels", o.size);
  std::vector<ScriptStep> steps;
  if (!o.script.empty()) steps = parse_script(read_file(o.script), o.script);
  std::string state_path = o.no_state ? "" : !o.state.empty() ? o.state : o.headless() ? "" : default_state_path();

  App app(options);
  FrameInput nothing;
  if (o.bench) {
    app.frame(&nothing, true);
    double start = std::chrono::duration<double>(std::chrono::steady_clock::now() - kStarted).count();
    run_bench(app, requests_of(o), start);
    return kDone;
  }
  std::unique_ptr<StateLock> lock;
  if (!state_path.empty()) {
    std::string wanted = state_path;
    lock = lock_state(state_path);
    if (state_path != wanted)
      app.session().say(fmt::format("another window keeps its files in {}, this one in {}", wanted, state_path));
  }
  open_documents(app, o, state_path);
  Keeper keeper(app, state_path);
  int code = kDone;
  if (o.headless()) {
    if (!o.sources.empty() || o.script.empty())
      if (!app.settle(600)) code = kFailed;
    run_script(app, steps);
    if (!o.screenshot.empty()) app.screenshot(o.screenshot);
    if (o.dump_widgets) dump_widgets(app, "-");
    for (const Message& message : app.session().messages())
      if (message.error) {
        fmt::print(stderr, "unity-gui: error: {}\n", message.text);
        code = kWrongInput;
      }
  } else {
    if (!steps.empty()) run_script(app, steps);
    app.run([&] { keeper.note(); });
  }
  keeper.finish();
  return code;
}

int report(int code, const std::string& message) {
  std::string line = message;
  for (char& c : line)
    if (c == '\n') c = ' ';
  fmt::print(stderr, "unity-gui: error: {}\n", line);
  return code;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--layout") return layout_child();
  Options o;
  CLI::App command("Shows models and plans: graph, machine, what the simulator says of them; and changes plans.",
                   "unity-gui");
  command.footer(
      "Examples:\n"
      "  unity-gui bert-large --topology summit --nodes 2 --strategy expert\n"
      "  unity-gui plan.json\n"
      "  unity-gui plan.json --screenshot plan.png --size 1600x1000\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage or input, or no display.");
  command.add_option("FILE|MODEL", o.sources, "Plans (.json), models (a name, .yaml, .onnx); none: as last time");
  command.add_option("--topology", o.topology, "Machine that models are planned for; without it, their graph is shown");
  command.add_option("--nodes", o.nodes, "Number of its nodes");
  command.add_option("--devices", o.devices, "First N of its devices");
  command.add_option("--strategy", o.strategy, "How the plan of a model is found")->capture_default_str();
  command.add_option("--script", o.script, "Do what a script says, without a window");
  command.add_option("--screenshot", o.screenshot, "Write what is seen as PNG, without a window");
  command.add_flag("--dump-widgets", o.dump_widgets, "Print all widgets as JSON, without a window");
  command.add_flag("--bench", o.bench, "Measure how fast frames, files and edits are, without a window");
  command.add_flag("--window", o.window, "Run the script in a window");
  command.add_option("--size", o.size, "Of the window, in pixels")->capture_default_str();
  command.add_option("--scale", o.scale, "Of texts and widgets, for screens of many pixels")
      ->check(CLI::Range(0.5, 4.0))
      ->capture_default_str();
  command.add_option("--theme", o.theme, "light or dark")->check(CLI::IsMember({"light", "dark"}));
  command.add_option("--state", o.state,
                     "Where open files and looks are kept (default: $XDG_STATE_HOME/unity/gui.json)");
  command.add_flag("--no-state", o.no_state, "Start afresh, and keep nothing");
  command.set_version_flag("--version", "unity-gui " UNITY_VERSION, "Print the version and exit");
  try {
    command.parse(argc, argv);
    return show(o);
  } catch (const CLI::Success& help_or_version) {
    return command.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return report(kWrongInput, error.what());
  } catch (const InputError& error) {
    return report(kWrongInput, error.what());
  } catch (const InternalError& error) {
    return report(kFailed, fmt::format("internal: {}", error.what()));
  } catch (const std::exception& error) {
    return report(kFailed, error.what());
  }
}

}  // namespace
}  // namespace unity::gui

int main(int argc, char** argv) { return unity::gui::run(argc, argv); }
