// Session, window and display together, frame by frame.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/app/window.h"

namespace unity::gui {

struct AppOptions {
  bool headless = false;
  int width = 1600, height = 1000;
  float scale = 1;
  std::string program;  // this executable
};

// What a script does to mouse and keyboard in a frame.
struct FrameInput {
  std::optional<Point> mouse;
  bool down = false;
  float wheel = 0;
  std::vector<int> keys;
  bool ctrl = false, shift = false, alt = false;
  std::string text;
};

class App {
 public:
  explicit App(const AppOptions& options);  // InputError: no display, no OpenGL, no fonts
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  Session& session() { return *session_; }
  Window& window() { return *window_; }
  bool headless() const { return options_.headless; }

  // `scripted`: input comes from a script alone. Waits for the drawing when `finish`.
  void frame(const FrameInput* scripted = nullptr, bool finish = false);
  // Until nothing is under way and what is seen is up to date. False when `seconds` were not enough.
  bool settle(double seconds);
  void draw_for(double seconds);
  void drop(const std::string& path);  // as if it were dropped on the window
  // A window's loop, until it is closed. `between` is called between frames.
  void run(const std::function<void()>& between);
  void resize(int width, int height);
  void screenshot(const std::string& path);  // of the next frame. InputError
  double last_frame_seconds() const { return last_frame_seconds_; }

 private:
  AppOptions options_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Display> display_;
  std::unique_ptr<Fonts> fonts_;
  std::unique_ptr<Window> window_;
  double last_frame_seconds_ = 0;
};

}  // namespace unity::gui
