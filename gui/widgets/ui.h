// Thin functions around ImGui's widgets. Each has a name of its own and notes what it drew where, so that scripts can
// click it and tests find what overlaps or is cut off.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <imgui.h>

#include "gui/widgets/fonts.h"
#include "gui/widgets/painter.h"
#include "gui/widgets/theme.h"

namespace unity::gui {

// In pixels.
struct Widget {
  std::string name;   // "button Undo", "node encoder.0"; unique enough to click
  std::string panel;  // "machine"; of the frame of the window: empty
  std::string label;  // the text that is shown
  Rect rect;          // of the whole widget
  Rect text;          // of the text as far as it is visible; empty: none
  bool cut = false;   // there is more text than room, to the right
  int layer = 0;      // 1: above the panels (palette, messages)
};

struct Click {
  bool once = false, twice = false;
};

class Ui {
 public:
  Ui(const Fonts& fonts) : fonts_(fonts) {}

  const Theme& theme() const { return theme_; }
  void set_theme(const Theme& theme);  // and ImGui's colours
  const Fonts& fonts() const { return fonts_; }
  float unit(float x) const { return x * fonts_.scale(); }  // pixels of a length

  // A frame begins: forgets what was drawn.
  void begin_frame();
  const std::vector<Widget>& widgets() const { return widgets_; }
  void set_panel(std::string panel) { panel_ = std::move(panel); }
  void set_layer(int layer) { layer_ = layer; }
  int layer() const { return layer_; }

  void text(std::string_view words) { text(words, theme_.text); }
  void text(std::string_view words, Color color, Face face = Face::text, float size = 14);
  void wrapped(std::string_view words, Color color);  // over as many lines as it needs
  void heading(std::string_view words);
  // "label   value" in two columns; the value in digits of equal width.
  void fact(std::string_view label, std::string_view value, float column = 150);
  bool button(std::string_view name, std::string_view label, std::string_view tip = {}, bool enabled = true,
              bool pressed = false);
  bool link(std::string_view name, std::string_view label, std::string_view tip = {});  // text to be clicked
  bool checkbox(std::string_view name, std::string_view label, bool& value, std::string_view tip = {});
  // The index of the choice in `value`; true when it was changed.
  bool choose(std::string_view name, const std::vector<std::string>& choices, int& value, float width,
              std::string_view tip = {});
  bool input(std::string_view name, std::string& value, std::string_view hint, float width, bool focus = false);
  bool number(std::string_view name, int& value, float width);  // true when entered
  // `done`: it was let go.
  bool slider(std::string_view name, double& value, double low, double high, std::string_view shown, float width,
              bool& done, bool logarithmic = true);
  bool selectable(std::string_view name, std::string_view label, bool selected, std::string_view right = {});
  void swatch(Color color, std::string_view label);  // of a legend
  // A colour for every value between two.
  void ramp(std::string_view low, std::string_view high, float width, Face face = Face::text);
  void tooltip(std::string_view words);  // of the last widget
  void same_line(float gap = 8);
  // The next widget goes on in this line where it has room, with `behind` for those that belong to it; else it begins
  // the next one. For toolbars of panels that may be narrow.
  void flow(float gap = 8, float behind = 0);
  void gap(float height = 6);

  // Areas in one colour below all that ImGui draws, in this order.
  struct Ground {
    Rect rect;
    Color color;
  };
  void ground(const Rect& rect, Color color) { grounds_.push_back({rect, color}); }
  const std::vector<Ground>& grounds() const { return grounds_; }

  // What canvases and frames draw themselves.
  void note(std::string_view name, std::string_view label, const Rect& rect, const Rect& text, bool cut);

 private:
  void note_item(std::string_view name, std::string_view label, float padding, float text_width);
  void place(float width);  // of the next widget, in pixels: does what flow() asked for
  std::string id(std::string_view name) const { return "##" + panel_ + "/" + std::string(name); }

  const Fonts& fonts_;
  Theme theme_;
  std::vector<Widget> widgets_;
  std::vector<Ground> grounds_;
  std::string panel_;
  int layer_ = 0;
  float flow_gap_ = -1, flow_behind_ = 0;  // -1: nothing was asked for
};

ImVec2 vec(Point p);
ImVec4 vec(Color c);
ImU32 packed(Color c);
Rect rect_of(ImVec2 low, ImVec2 high);
Rect clip_rect();  // of the current window

// "[{..}, ..]": a document for --dump-widgets.
std::string to_json(const std::vector<Widget>& widgets);

// What is wrong with them: "'a' overlaps 'b' at x,y", "'c' is cut off". Texts of one layer must not overlap.
std::vector<std::string> find_faults(const std::vector<Widget>& widgets);

}  // namespace unity::gui
