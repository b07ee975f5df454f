#include <chrono>
#include <thread>

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <imgui.h>
#include <imgui_impl_opengl3.h>

#include "gui/app/display.h"

namespace unity::gui {
namespace {

class EglDisplay : public Display {
 public:
  EglDisplay(int width, int height) {
    auto get = reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(eglGetProcAddress("eglGetPlatformDisplayEXT"));
    if (get) display_ = get(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
    if (display_ == EGL_NO_DISPLAY) display_ = eglGetDisplay(EGL_DEFAULT_DISPLAY);
    if (display_ == EGL_NO_DISPLAY || !eglInitialize(display_, nullptr, nullptr))
      throw_input_error("no OpenGL without a window: EGL finds no driver (apt-get install libegl1 libgl1-mesa-dri)");
    const EGLint config_attributes[] = {EGL_SURFACE_TYPE,
                                        EGL_PBUFFER_BIT,
                                        EGL_RENDERABLE_TYPE,
                                        EGL_OPENGL_BIT,
                                        EGL_RED_SIZE,
                                        8,
                                        EGL_GREEN_SIZE,
                                        8,
                                        EGL_BLUE_SIZE,
                                        8,
                                        EGL_ALPHA_SIZE,
                                        8,
                                        EGL_NONE};
    EGLint count = 0;
    eglBindAPI(EGL_OPENGL_API);
    if (!eglChooseConfig(display_, config_attributes, &config_, 1, &count) || count == 0)
      throw_input_error("no OpenGL without a window: EGL has no buffer to draw in");
    const EGLint context_attributes[] = {EGL_CONTEXT_MAJOR_VERSION, 3, EGL_CONTEXT_MINOR_VERSION, 3, EGL_NONE};
    context_ = eglCreateContext(display_, config_, EGL_NO_CONTEXT, context_attributes);
    if (context_ == EGL_NO_CONTEXT) throw_input_error("no OpenGL 3.3 (EGL error {:#x})", eglGetError());
    resize(width, height);
    map_keys();
    ImGui_ImplOpenGL3_Init("#version 150");
  }
  ~EglDisplay() override {
    ImGui_ImplOpenGL3_Shutdown();
    eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    eglDestroySurface(display_, surface_);
    eglDestroyContext(display_, context_);
    eglTerminate(display_);
  }
  EglDisplay(const EglDisplay&) = delete;
  EglDisplay& operator=(const EglDisplay&) = delete;

  void begin_frame() override {
    ImGui_ImplOpenGL3_NewFrame();
    ImGuiIO& io = ImGui::GetIO();
    io.DisplaySize = {static_cast<float>(width_), static_cast<float>(height_)};
    io.DeltaTime = 1.0f / 60;  // the same in every run
  }
  void end_frame() override {}
  void wait(double) override { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
  void resize(int width, int height) override {
    if (surface_ != EGL_NO_SURFACE) {
      eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
      eglDestroySurface(display_, surface_);
    }
    const EGLint attributes[] = {EGL_WIDTH, width, EGL_HEIGHT, height, EGL_NONE};
    surface_ = eglCreatePbufferSurface(display_, config_, attributes);
    if (surface_ == EGL_NO_SURFACE || !eglMakeCurrent(display_, surface_, surface_, context_))
      throw_input_error("no OpenGL buffer of {} x {} pixels", width, height);
    width_ = width;
    height_ = height;
  }

 private:
  EGLDisplay display_ = EGL_NO_DISPLAY;
  EGLConfig config_ = nullptr;
  EGLContext context_ = EGL_NO_CONTEXT;
  EGLSurface surface_ = EGL_NO_SURFACE;
  int width_ = 0, height_ = 0;
};

}  // namespace

std::unique_ptr<Display> open_headless(int width, int height) { return std::make_unique<EglDisplay>(width, height); }

}  // namespace unity::gui
