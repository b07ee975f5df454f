// A script of what a user does: a YAML list of steps, run by the window with or without a display.
//
//   - open: {file: bert-large, topology: summit, nodes: 2, strategy: expert}
//   - wait                             # for background work (60 s; wait: 120)
//   - sleep: 2                         # seconds in which the window goes on drawing
//   - command: pcg.fit                 # or {name: set_scale, what: "link:infiniband", factor: 2}
//   - drop: results.json               # as if it were dropped on the window
//   - click: "tab Machine"             # a widget's name; --dump-widgets lists them
//   - double-click: "node encoder"
//   - type: "softmax"                  # into what has the focus
//   - key: Ctrl+P
//   - select: encoder.0.ffn.in.matmul  # an operator's label
//   - size: [1600, 1000]
//   - screenshot: out.png
//   - dump-widgets: widgets.json
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace unity::gui {

struct ScriptStep {
  enum class Kind : std::uint8_t {
    open,
    command,
    click,
    double_click,
    type,
    key,
    select,
    wait,
    sleep,
    drop,
    size,
    screenshot,
    dump_widgets
  };
  Kind kind = Kind::wait;
  std::string text;                              // name, label, keys, path
  std::map<std::string, std::string> arguments;  // of open and command
  double number = 0;                             // of wait and sleep: seconds
  std::string place;                             // "script.yaml:3", for errors
};

// InputError "file:line: ...".
std::vector<ScriptStep> parse_script(const std::string& text, const std::string& file);

}  // namespace unity::gui
