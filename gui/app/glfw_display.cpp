#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <imgui.h>
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>

#include "gui/app/display.h"

namespace unity::gui {
namespace {

std::string last_error() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text ? text : "unknown reason";
}

class GlfwDisplay : public Display {
 public:
  GlfwDisplay(int width, int height) {
    if (!glfwInit()) throw_input_error("no display: {}; --screenshot and --script need none", last_error());
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    window_ = glfwCreateWindow(width, height, "Unity", nullptr, nullptr);
    if (!window_) {
      std::string why = last_error();
      glfwTerminate();
      throw_input_error("no window with OpenGL 3.3: {}", why);
    }
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(1);
    glfwSetWindowUserPointer(window_, this);
    glfwSetDropCallback(window_, [](GLFWwindow* window, int count, const char** paths) {
      auto* self = static_cast<GlfwDisplay*>(glfwGetWindowUserPointer(window));
      for (int i = 0; i < count; ++i) self->dropped_.emplace_back(paths[i]);
    });
    ImGui_ImplGlfw_InitForOpenGL(window_, true);
    ImGui_ImplOpenGL3_Init("#version 150");
  }
  ~GlfwDisplay() override {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
    glfwDestroyWindow(window_);
    glfwTerminate();
  }
  GlfwDisplay(const GlfwDisplay&) = delete;
  GlfwDisplay& operator=(const GlfwDisplay&) = delete;

  void begin_frame() override {
    glfwPollEvents();
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
  }
  void end_frame() override { glfwSwapBuffers(window_); }
  bool closed() const override { return glfwWindowShouldClose(window_); }
  void wait(double seconds) override { glfwWaitEventsTimeout(seconds); }
  void wake() override { glfwPostEmptyEvent(); }
  void resize(int width, int height) override { glfwSetWindowSize(window_, width, height); }
  void set_title(const std::string& title) override { glfwSetWindowTitle(window_, title.c_str()); }
  std::vector<std::string> take_dropped() override { return std::exchange(dropped_, {}); }

 private:
  GLFWwindow* window_ = nullptr;
  std::vector<std::string> dropped_;
};

}  // namespace

std::unique_ptr<Display> open_window(int width, int height) { return std::make_unique<GlfwDisplay>(width, height); }

}  // namespace unity::gui
