// Fonts in all sizes that drawings use: letters are crisp at every zoom.
#pragma once

#include <vector>

#include <imgui.h>

#include "gui/widgets/painter.h"

namespace unity::gui {

// In Font Awesome 4, as UTF-8.
namespace icon {
inline constexpr const char* kUndo = "\xef\x83\xa2";
inline constexpr const char* kRedo = "\xef\x80\x9e";
inline constexpr const char* kSearch = "\xef\x80\x82";
inline constexpr const char* kFit = "\xef\x81\xa5";
inline constexpr const char* kExpand = "\xef\x83\xbe";
inline constexpr const char* kCollapse = "\xef\x85\x86";
inline constexpr const char* kClose = "\xef\x80\x8d";
inline constexpr const char* kSun = "\xef\x86\x85";
inline constexpr const char* kMoon = "\xef\x86\x86";
inline constexpr const char* kGraph = "\xef\x83\xa8";
inline constexpr const char* kMachine = "\xef\x88\xb3";
inline constexpr const char* kInfo = "\xef\x81\x9a";
inline constexpr const char* kBolt = "\xef\x83\xa7";
inline constexpr const char* kWarning = "\xef\x81\xb1";
inline constexpr const char* kFolder = "\xef\x81\xbc";
inline constexpr const char* kKeyboard = "\xef\x84\x9c";
inline constexpr const char* kPath = "\xef\x84\xa6";
inline constexpr const char* kTimeline = "\xef\x82\xae";
inline constexpr const char* kRules = "\xef\x83\xab";
inline constexpr const char* kChart = "\xef\x82\x80";
inline constexpr const char* kImage = "\xef\x80\xbe";
}  // namespace icon

class Fonts {
 public:
  // Builds the atlas of the current ImGui context. InputError where a font file is missing.
  explicit Fonts(float scale);

  float scale() const { return scale_; }  // pixels per unit of the interface
  // The largest one made of at most so many pixels (within rounding).
  ImFont* at(Face face, float pixels) const;
  Fonts(const Fonts&) = delete;
  Fonts& operator=(const Fonts&) = delete;

  ImFont* ui() const { return at(Face::text, 14 * scale_); }
  const TextMetrics& metrics() const { return metrics_; }

 private:
  float scale_;
  std::array<std::string, 4> files_;  // which the atlas reads
  std::vector<ImFont*> fonts_[3];
  TextMetrics metrics_;
};

}  // namespace unity::gui
