// Where frames go: a window, or memory when there is none (tests, screenshots, measurements).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "gui/widgets/ui.h"

namespace unity::gui {

struct Pixels {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // rows from the top
};

class Display {
 public:
  virtual ~Display() = default;
  virtual void begin_frame() = 0;  // events, size and time for ImGui
  virtual void end_frame() = 0;    // shows what was drawn
  virtual bool closed() const { return false; }
  virtual void wait(double /*seconds*/) {}  // until something happens
  virtual void wake() {}                    // from any thread: ends wait()
  virtual void resize(int width, int height) = 0;
  virtual void set_title(const std::string& /*title*/) {}
  virtual std::vector<std::string> take_dropped() { return {}; }  // files dropped on the window
};

// Both make an OpenGL 3 context current, and an ImGui context must be there. InputError says what is missing.
std::unique_ptr<Display> open_window(int width, int height);
std::unique_ptr<Display> open_headless(int width, int height);

// Draws the ImGui frame that is complete and waits until it is there.
void render(const std::vector<Ui::Ground>& grounds, bool finish);
Pixels read_pixels(const Rect& area, int height);               // of a display so high
void write_png(const Pixels& pixels, const std::string& path);  // InputError

// ImGui 1.86 knows few keys by name; both displays number them as GLFW does. 0: unknown.
int key_code(const std::string& name);
void map_keys();

}  // namespace unity::gui
