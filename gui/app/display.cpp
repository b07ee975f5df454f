#include "gui/app/display.h"

#include <map>
#include <string>

#include <GL/gl.h>
#include <fmt/format.h>
#include <imgui.h>
#include <imgui_impl_opengl3.h>

#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image_write.h>
#pragma GCC diagnostic pop

#include "core/base/text.h"

namespace unity::gui {

void render(const std::vector<Ui::Ground>& grounds, bool finish) {
  ImGui::Render();
  const ImGuiIO& io = ImGui::GetIO();
  glViewport(0, 0, static_cast<int>(io.DisplaySize.x * io.DisplayFramebufferScale.x),
             static_cast<int>(io.DisplaySize.y * io.DisplayFramebufferScale.y));
  // Clearing is many times as fast as drawing.
  glEnable(GL_SCISSOR_TEST);
  for (const auto& [rect, color] : grounds) {
    auto left = static_cast<int>(rect.x), right = static_cast<int>(rect.right());
    auto top = static_cast<int>(rect.y), bottom = static_cast<int>(rect.bottom());
    glScissor(left, static_cast<int>(io.DisplaySize.y) - bottom, right - left, bottom - top);
    glClearColor(static_cast<float>(color.r) / 255, static_cast<float>(color.g) / 255,
                 static_cast<float>(color.b) / 255, 1);
    glClear(GL_COLOR_BUFFER_BIT);
  }
  glDisable(GL_SCISSOR_TEST);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  if (finish) glFinish();
}

Pixels read_pixels(const Rect& area, int height) {
  Pixels pixels{static_cast<int>(area.w), static_cast<int>(area.h), {}};
  auto row = static_cast<std::size_t>(pixels.width) * 3;
  std::vector<std::uint8_t> upside_down(row * static_cast<std::size_t>(pixels.height));
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(static_cast<int>(area.x), height - static_cast<int>(area.y) - pixels.height, pixels.width, pixels.height,
               GL_RGB, GL_UNSIGNED_BYTE, upside_down.data());
  for (int y = pixels.height; y-- > 0;) {
    auto begin = upside_down.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(y) * row);
    pixels.rgb.insert(pixels.rgb.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
  }
  return pixels;
}

void write_png(const Pixels& pixels, const std::string& path) {
  std::string png;
  auto append = [](void* to, void* data, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), static_cast<std::size_t>(size));
  };
  if (!stbi_write_png_to_func(append, &png, pixels.width, pixels.height, 3, pixels.rgb.data(), pixels.width * 3))
    throw_input_error("{}: cannot be written: a picture of {} x {}", path, pixels.width, pixels.height);
  write_file_atomically(path, png);
}

int key_code(const std::string& name) {
  static const std::map<std::string, int> kNamed = {
      {"Space", 32},     {"Escape", 256}, {"Enter", 257}, {"Tab", 258},  {"Backspace", 259}, {"Insert", 260},
      {"Delete", 261},   {"Right", 262},  {"Left", 263},  {"Down", 264}, {"Up", 265},        {"PageUp", 266},
      {"PageDown", 267}, {"Home", 268},   {"End", 269},   {"F1", 290},   {"F2", 291},        {"F3", 292},
      {"F4", 293},       {"F5", 294},     {"F6", 295},    {"F7", 296},   {"F8", 297},        {"F9", 298},
      {"F10", 299},      {"F11", 300},    {"F12", 301}};
  if (name.size() == 1) {
    char c = name[0] >= 'a' && name[0] <= 'z' ? static_cast<char>(name[0] - 'a' + 'A') : name[0];
    return static_cast<unsigned char>(c);
  }
  auto at = kNamed.find(name);
  return at == kNamed.end() ? 0 : at->second;
}

void map_keys() {
  ImGuiIO& io = ImGui::GetIO();
  for (auto [key, name] : {std::pair(ImGuiKey_Tab, "Tab"),
                           std::pair(ImGuiKey_LeftArrow, "Left"),
                           std::pair(ImGuiKey_RightArrow, "Right"),
                           std::pair(ImGuiKey_UpArrow, "Up"),
                           std::pair(ImGuiKey_DownArrow, "Down"),
                           std::pair(ImGuiKey_PageUp, "PageUp"),
                           std::pair(ImGuiKey_PageDown, "PageDown"),
                           std::pair(ImGuiKey_Home, "Home"),
                           std::pair(ImGuiKey_End, "End"),
                           std::pair(ImGuiKey_Insert, "Insert"),
                           std::pair(ImGuiKey_Delete, "Delete"),
                           std::pair(ImGuiKey_Backspace, "Backspace"),
                           std::pair(ImGuiKey_Space, "Space"),
                           std::pair(ImGuiKey_Enter, "Enter"),
                           std::pair(ImGuiKey_Escape, "Escape"),
                           std::pair(ImGuiKey_A, "A"),
                           std::pair(ImGuiKey_C, "C"),
                           std::pair(ImGuiKey_V, "V"),
                           std::pair(ImGuiKey_X, "X"),
                           std::pair(ImGuiKey_Y, "Y"),
                           std::pair(ImGuiKey_Z, "Z")})
    io.KeyMap[key] = key_code(name);
}

}  // namespace unity::gui
