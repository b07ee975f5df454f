#include "gui/app/script_runner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "core/base/text.h"

namespace unity::gui {
namespace {

constexpr double kPatience = 60;  // seconds until something has to be there

const Widget* find_widget(const App& app, const std::vector<Widget>& widgets, const std::string& name) {
  (void)app;
  const Widget* best = nullptr;
  for (const Widget& w : widgets)
    if ((w.name == name || w.panel + "/" + w.name == name) && w.rect.w > 0 && w.rect.h > 0 &&
        (!best || w.layer > best->layer))
      best = &w;
  return best;
}

void press(App& app, Point at, int times) {
  FrameInput input;
  input.mouse = at;
  app.frame(&input);
  for (int i = 0; i < times; ++i) {
    input.down = true;
    app.frame(&input);
    app.frame(&input);
    input.down = false;
    app.frame(&input);
  }
  app.frame(&input);
  FrameInput nothing;
  app.frame(&nothing);
}

void click(App& app, const ScriptStep& step, int times) {
  FrameInput nothing;
  app.frame(&nothing);
  const Widget* widget = find_widget(app, app.window().widgets(), step.text);
  if (!widget) {
    app.settle(kPatience);
    widget = find_widget(app, app.window().widgets(), step.text);
  }
  if (!widget) {
    std::vector<std::string> names;
    for (const Widget& w : app.window().widgets()) names.push_back(w.name);
    std::string near = nearest_name(step.text, names);
    throw_input_error("{}: there is no widget '{}'{}", step.place, step.text,
                      near.empty() ? "; --dump-widgets lists them" : fmt::format(" (did you mean '{}'?)", near));
  }
  press(app, widget->rect.center(), times);
}

void type(App& app, const std::string& text) {
  FrameInput input;
  input.text = text;
  app.frame(&input);
  FrameInput nothing;
  app.frame(&nothing);
}

void key(App& app, const ScriptStep& step) {
  Result<Shortcut> shortcut = parse_shortcut(step.text);
  if (!shortcut.ok()) throw_input_error("{}: {}", step.place, shortcut.error().message);
  int code = key_code(shortcut->key);
  if (code == 0) throw_input_error("{}: key: found '{}', which is no key", step.place, shortcut->key);
  FrameInput input;
  input.ctrl = shortcut->ctrl;
  input.shift = shortcut->shift;
  input.alt = shortcut->alt;
  input.keys = {code};
  app.frame(&input);
  FrameInput nothing;
  app.frame(&nothing);
  app.frame(&nothing);
}

void select(App& app, const ScriptStep& step) {
  Snapshot document = app.session().document();
  if (!document) throw_input_error("{}: select: no document is open", step.place);
  const Pcg& pcg = document->graph();
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    if (pcg.nodes()[i].is_parallelization()) continue;
    if (pcg.nodes()[i].name == step.text)
      return app.session().select(Selection::of(NodeId(static_cast<std::int64_t>(i))));
    labels.push_back(pcg.nodes()[i].name);
  }
  std::string near = nearest_name(step.text, labels);
  throw_input_error("{}: select: there is no operator '{}'{}", step.place, step.text,
                    near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
}

void run_command(App& app, const std::string& name, Arguments arguments, const std::string& place) {
  arguments.erase("name");
  Result<void> done = app.session().commands.run(name, arguments);
  if (!done.ok()) throw_input_error("{}: {}", place, done.error().message);
}

void resize(App& app, const ScriptStep& step) {
  int width = 0, height = 0;
  if (std::sscanf(step.text.c_str(), "%dx%d", &width, &height) != 2 || width < 64 || height < 64 || width > 16384 ||
      height > 16384)
    throw_input_error("{}: size: found '{}', expected [WIDTH, HEIGHT] of 64 to 16384", step.place, step.text);
  app.resize(width, height);
}

void run_step(App& app, const ScriptStep& step) {
  using Kind = ScriptStep::Kind;
  FrameInput nothing;
  switch (step.kind) {
    case Kind::open:
      return run_command(app, "open", step.arguments, step.place);
    case Kind::command:
      run_command(app, step.text, step.arguments, step.place);
      return app.frame(&nothing);
    case Kind::click:
      return click(app, step, 1);
    case Kind::double_click:
      return click(app, step, 2);
    case Kind::type:
      return type(app, step.text);
    case Kind::key:
      return key(app, step);
    case Kind::select:
      select(app, step);
      return app.frame(&nothing);
    case Kind::wait:
      if (!app.settle(step.number)) throw_input_error("{}: wait: {} s were not enough", step.place, step.number);
      return;
    case Kind::sleep:
      return app.draw_for(step.number);
    case Kind::drop:
      app.drop(step.text);
      return app.frame(&nothing);
    case Kind::size:
      return resize(app, step);
    case Kind::screenshot:
      return app.screenshot(step.text);
    case Kind::dump_widgets:
      return dump_widgets(app, step.text);
  }
}

}  // namespace

void run_script(App& app, const std::vector<ScriptStep>& steps) {
  FrameInput nothing;
  app.frame(&nothing);
  for (const ScriptStep& step : steps) run_step(app, step);
}

void dump_widgets(App& app, const std::string& path) {
  FrameInput nothing;
  app.frame(&nothing);
  std::string text = to_json(app.window().widgets());
  if (path == "-")
    fmt::print("{}", text);
  else
    write_file_atomically(path, text);
}

}  // namespace unity::gui
