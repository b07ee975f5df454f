// Random mouse and keys: whatever a user does, nothing breaks, and undo leads back to the beginning. UNITY_GUI_SEED
// tries another seed.
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include <catch2/catch.hpp>

#include "tests/gui/headless.h"
#include "tests/gui/support.h"
#include "tests/support/seed.h"

using namespace unity;
using namespace unity::gui;

namespace {

constexpr int kActions = 250;

}  // namespace

TEST_CASE("random clicks, drags and keys break nothing") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  const char* given = std::getenv("UNITY_GUI_SEED");
  std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 7;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  // What is saved or exported lands here.
  std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("unity-gui-monkey-{}", getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);

  app->session().open({.source = "bert-tiny", .topology = "summit", .nodes = 1, .strategy = "expert"});
  app->session().open({.source = "mlp-tiny"});
  REQUIRE(app->settle(60));
  const char* keys[] = {"Ctrl+P",       "Escape", "Enter",    "Down",   "Up",     "Ctrl+Z", "Ctrl+Y",
                        "Ctrl+T",       "Ctrl+0", "Ctrl+1",   "Ctrl+2", "Ctrl+3", "Ctrl+4", "Ctrl+5",
                        "Ctrl+E",       "Ctrl+L", "Ctrl+G",   "Ctrl+F", "Ctrl+M", "Tab",    "Ctrl+9",
                        "Ctrl+Shift+E", "Home",   "Ctrl+Tab", "Ctrl+=", "Ctrl+-", "Delete"};
  for (int action = 0; action < kActions; ++action) {
    FrameInput input;
    input.mouse = Point{static_cast<float>(below(1200)), static_cast<float>(45 + below(730))};
    switch (below(8)) {
      case 0: {  // a drag
        input.down = true;
        app->frame(&input);
        input.mouse = Point{static_cast<float>(below(1200)), static_cast<float>(45 + below(730))};
        app->frame(&input);
        app->frame(&input);
        break;
      }
      case 1:
        input.wheel = static_cast<float>(below(7) - 3);
        app->frame(&input);
        break;
      case 2:
      case 3: {
        Shortcut shortcut = parse_shortcut(keys[below(std::size(keys))]).value();
        input.ctrl = shortcut.ctrl, input.shift = shortcut.shift;
        input.keys = {key_code(shortcut.key)};
        app->frame(&input);
        break;
      }
      case 4:
        input.text = std::string(1, static_cast<char>('a' + below(26)));
        app->frame(&input);
        break;
      default: {  // a click on a widget, or twice
        const auto& widgets = app->window().widgets();
        const Widget& widget = widgets[static_cast<std::size_t>(below(static_cast<int>(widgets.size())))];
        // Searches and files are not for monkeys.
        if (widget.name.starts_with("open") || widget.name == "command quit" || widget.name == "start search" ||
            widget.name == "command search.start" || widget.rect.w <= 0)
          break;
        input.mouse = widget.rect.center();
        for (int i = below(2); i >= 0; --i) {
          input.down = true;
          app->frame(&input);
          input.down = false;
          app->frame(&input);
        }
      }
    }
    input.down = false, input.keys.clear(), input.text.clear(), input.ctrl = input.shift = false, input.wheel = 0;
    app->frame(&input);
  }
  app->settle(60);
  for (const auto& file : app->session().files()) {
    while (file->history.can_undo()) file->history.undo();
    CHECK(file->history.now()->request.source != "");
  }
  app->settle(60);
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

TEST_CASE("every command is reachable by keyboard: by its own keys, or through the palette") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  app->session().add(small_plan());
  app->settle(60);
  FrameInput nothing;
  for (const Command& command : app->session().commands.all()) {
    INFO(command.name);
    CHECK(!command.label.empty());
    if (!command.shortcut.empty()) CHECK(key_code(parse_shortcut(command.shortcut).value().key) != 0);
    // What takes arguments is asked for in fields of the window.
    if (!command.listed) CHECK((command.name == "open" || command.label.ends_with("..") || edits().size() > 0));
    if (!command.listed || !command.shortcut.empty()) continue;
    FrameInput keys;
    keys.ctrl = true;
    keys.keys = {key_code("P")};
    app->frame(&keys);
    app->frame(&nothing);
    FrameInput typed;
    typed.text = command.label;
    app->frame(&typed);
    app->frame(&nothing);
    const auto& widgets = app->window().widgets();
    CHECK(std::any_of(widgets.begin(), widgets.end(),
                      [&](const Widget& w) { return w.name == "command " + command.name; }));
    FrameInput escape;
    escape.keys = {key_code("Escape")};
    app->frame(&escape);
    app->frame(&nothing);
  }
}

TEST_CASE("1,000 random commands: what is undone and redone returns byte-identical documents") {
  std::unique_ptr<App> app = headless_app();
  if (!app) return;
  std::uint64_t seed = test::seed_of_run();
  INFO("UNITY_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  Session& session = app->session();
  session.add(small_plan());
  app->settle(60);
  // Those that open, close, write or search are for other tests; so is what asks for a path.
  const std::set<std::string> left_out = {"quit",
                                          "close",
                                          "sample",
                                          "reload",
                                          "save_plan",
                                          "open_dialog",
                                          "search.start",
                                          "export_svg",
                                          "export_png",
                                          "cancel",
                                          "experiments.export_csv"};
  std::vector<std::string> names;
  for (const Command& command : session.commands.all())
    if (command.listed && !left_out.contains(command.name)) names.push_back(command.name);
  CHECK(names.size() > 40);
  const char* whats[] = {"link:nvlink", "link", "device"};
  std::vector<std::string> texts = {to_text(*session.document())};
  std::size_t edits_done = 0;
  FrameInput nothing;
  for (int i = 0; i < 1000; ++i) {
    const History& history = session.file()->history;
    std::size_t before = history.position();
    std::string name = below(3) == 0 ? "set_scale" : below(4) == 0 ? "apply_rule" : names[below(names.size())];
    Arguments arguments;
    if (name == "set_scale") arguments = {{"what", whats[below(3)]}, {"factor", std::to_string(1 + below(4))}};
    if (name == "apply_rule")
      arguments = {{"rule", below(2) ? "fuse_attention" : "unfuse_attention"}, {"match", std::to_string(below(2))}};
    (void)session.commands.run(name, arguments);
    bool edited = history.position() == before + 1 && name != "redo" && name != "undo";
    if (edited) {
      texts.resize(before + 1);
      texts.push_back(to_text(*session.document()));
      ++edits_done;
    }
    REQUIRE(history.position() < texts.size());
    REQUIRE(to_text(*session.document()) == texts[history.position()]);
    if (i % 25 == 0) app->frame(&nothing);
  }
  CHECK(edits_done > 100);
  while (session.file()->history.can_undo()) {
    session.undo();
    REQUIRE(to_text(*session.document()) == texts[session.file()->history.position()]);
  }
  app->settle(60);
}
