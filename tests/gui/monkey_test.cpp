// Random mouse and keys: whatever a user does, nothing breaks, and undo leads back to the beginning. UNITY_GUI_SEED
// tries another seed.
#include <cstdlib>
#include <filesystem>
#include <random>

#include <catch2/catch.hpp>

#include "gui/app/app.h"
#include "tests/gui/support.h"

using namespace unity;
using namespace unity::gui;

namespace {

constexpr int kActions = 250;

std::unique_ptr<App> headless_app() {
  try {
    return std::make_unique<App>(AppOptions{true, 1200, 800, 1, std::string(UNITY_BINARY_DIR) + "/bin/unity-gui"});
  } catch (const InputError& error) {
    std::printf("skipped: %s\n", error.what());
    return nullptr;
  }
}

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
        if (widget.name.starts_with("open") || widget.name == "command quit" || widget.rect.w <= 0) break;
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
