#include "gui/widgets/fonts.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <imgui_freetype.h>

#include "core/base/text.h"

namespace unity::gui {
namespace {

constexpr float kSizes[] = {7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19, 22, 26, 32};
constexpr float kIconSizes[] = {14, 15};  // in which icons are there

// Where the system keeps what programs share; the file's content.
std::string font(const std::string& path) {
  const char* given = std::getenv("XDG_DATA_DIRS");
  std::istringstream folders(given && *given ? given : "/usr/local/share:/usr/share");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::filesystem::path file = std::filesystem::path(folder) / "fonts" / "truetype" / path;
    if (std::filesystem::exists(file)) return read_file(file);
  }
  throw_input_error("font {} not found; apt-get install fonts-roboto-unhinted fonts-jetbrains-mono fonts-font-awesome",
                    path);
}

bool has_icons(float size) {
  for (float s : kIconSizes)
    if (s == size) return true;
  return false;
}

}  // namespace

Fonts::Fonts(float scale) : scale_(scale) {
  files_ = {font("roboto/unhinted/RobotoTTF/Roboto-Regular.ttf"), font("roboto/unhinted/RobotoTTF/Roboto-Medium.ttf"),
            font("jetbrains-mono/JetBrainsMono-Regular.ttf"), font("font-awesome/fontawesome-webfont.ttf")};
  static const ImWchar kLetters[] = {0x20, 0x7e, 0xa0, 0xff, 0x3a3, 0x3a3, 0x3bc, 0x3bc, 0};
  static const ImWchar kSymbols[] = {0x2026, 0x2026, 0x2190, 0x2193, 0x2211, 0x2211, 0x2264, 0x2265, 0};
  static const ImWchar kIcons[] = {0xf000, 0xf2e0, 0};
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.FontBuilderIO = ImGuiFreeType::GetBuilderForFreeType();
  atlas.FontBuilderFlags = ImGuiFreeTypeBuilderFlags_LightHinting;
  atlas.Flags |= ImFontAtlasFlags_NoPowerOfTwoHeight;
  atlas.TexDesiredWidth = 2048;
  auto add = [&](std::size_t file, float pixels, const ImFontConfig& config, const ImWchar* letters) {
    return atlas.AddFontFromMemoryTTF(files_[file].data(), static_cast<int>(files_[file].size()), pixels, &config,
                                      letters);
  };
  for (std::size_t face = 0; face < 3; ++face)
    for (float size : kSizes) {
      float pixels = std::round(size * scale);
      ImFontConfig config;
      config.OversampleH = 1;
      config.FontDataOwnedByAtlas = false;
      fonts_[face].push_back(add(face, pixels, config, kLetters));
      // Arrows and sums are not in Roboto.
      config.MergeMode = true;
      add(2, pixels, config, kSymbols);
      if (face == 0 && has_icons(size)) {
        config.GlyphMinAdvanceX = pixels;
        add(3, pixels * 0.95f, config, kIcons);
      }
    }
  atlas.Build();
  for (std::size_t face = 0; face < 3; ++face) {
    const ImFont* font = fonts_[face].back();
    for (int c = 32; c < 127; ++c)
      metrics_.advance[face][static_cast<std::size_t>(c)] =
          font->GetCharAdvance(static_cast<ImWchar>(c)) / font->FontSize;
  }
  ImGui::GetIO().FontDefault = ui();
}

ImFont* Fonts::at(Face face, float pixels) const {
  const std::vector<ImFont*>& fonts = fonts_[static_cast<int>(face)];
  ImFont* best = fonts.front();
  for (ImFont* font : fonts)
    if (font->FontSize <= pixels * 1.01f) best = font;
  return best;
}

}  // namespace unity::gui
