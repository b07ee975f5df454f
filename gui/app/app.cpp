#include "gui/app/app.h"

#include <cfloat>
#include <chrono>
#include <thread>

namespace unity::gui {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void feed(const FrameInput& input) {
  ImGuiIO& io = ImGui::GetIO();
  io.MousePos = input.mouse ? ImVec2(input.mouse->x, input.mouse->y) : ImVec2(-FLT_MAX, -FLT_MAX);
  io.MouseDown[0] = input.down;
  io.MouseWheel = input.wheel;
  io.KeyCtrl = input.ctrl;
  io.KeyShift = input.shift;
  io.KeyAlt = input.alt;
  for (bool& key : io.KeysDown) key = false;
  for (int key : input.keys) io.KeysDown[key] = true;
  io.AddInputCharactersUTF8(input.text.c_str());
}

}  // namespace

App::App(const AppOptions& options) : options_(options), session_(std::make_unique<Session>()) {
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImGui::GetIO().IniFilename = nullptr;  // our own state file
  ImGui::GetIO().ConfigInputTextCursorBlink = !options.headless;
  try {
    display_ =
        options.headless ? open_headless(options.width, options.height) : open_window(options.width, options.height);
    fonts_ = std::make_unique<Fonts>(options.scale);
  } catch (...) {
    display_.reset();
    ImGui::DestroyContext();
    throw;
  }
  window_ = std::make_unique<Window>(*session_, *fonts_, options.program);
  session_->jobs.on_ready([this] { display_->wake(); });
}

App::~App() {
  session_->jobs.on_ready({});
  session_.reset();  // joins the jobs first: what they return belongs to panels
  window_.reset();
  display_.reset();
  ImGui::DestroyContext();
}

void App::frame(const FrameInput* scripted, bool finish) {
  Clock::time_point begin = Clock::now();
  session_->poll();
  display_->begin_frame();
  if (scripted) feed(*scripted);
  ImGui::NewFrame();
  window_->draw();
  render(window_->grounds(), finish || options_.headless);
  auto [area, path] = window_->take_export();
  if (!path.empty()) {
    try {
      write_png(read_pixels(area, static_cast<int>(ImGui::GetIO().DisplaySize.y)), path);
      session_->say(fmt::format("view written to {}", path));
    } catch (const InputError& error) {
      session_->complain(error.what());
    }
  }
  display_->end_frame();
  last_frame_seconds_ = since(begin);
}

bool App::settle(double seconds) {
  Clock::time_point begin = Clock::now();
  FrameInput nothing;
  for (int quiet = 0; quiet < 4;) {
    if (since(begin) > seconds) return false;
    frame(options_.headless ? &nothing : nullptr);
    bool settled = session_->settled();
    quiet = settled ? quiet + 1 : 0;
    // The processors are for the work that is waited for.
    if (!settled) std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  return true;
}

void App::draw_for(double seconds) {
  FrameInput nothing;
  for (Clock::time_point begin = Clock::now(); since(begin) < seconds;) {
    frame(options_.headless ? &nothing : nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
}

void App::drop(const std::string& path) { session_->open({.source = path}); }

void App::run(const std::function<void()>& between) {
  constexpr double kIdle = 0.25, kBusy = 0.08;  // seconds between frames in which nothing happens
  int lively = 3;  // frames still to be drawn without a wait: ImGui needs more than one to settle
  std::string title;
  while (!display_->closed() && !session_->quit) {
    frame();
    for (const std::string& path : display_->take_dropped()) drop(path);
    Snapshot document = session_->document();
    std::string wanted = document ? document->title + " - Unity" : "Unity";
    if (wanted != title) display_->set_title(title = wanted);
    if (--lively > 0) continue;
    between();
    // The processors are for the work in the background; what it ends with wakes the window.
    display_->wait(session_->jobs.idle() ? kIdle : kBusy);
    lively = 3;
  }
}

void App::resize(int width, int height) {
  display_->resize(width, height);
  options_.width = width;
  options_.height = height;
}

void App::screenshot(const std::string& path) {
  FrameInput nothing;
  frame(options_.headless ? &nothing : nullptr, true);
  const ImGuiIO& io = ImGui::GetIO();
  write_png(read_pixels({0, 0, io.DisplaySize.x, io.DisplaySize.y}, static_cast<int>(io.DisplaySize.y)), path);
}

}  // namespace unity::gui
