#include "gui/session/script.h"

#include "core/base/read_yaml.h"
#include "core/base/text.h"

namespace unity::gui {
namespace {

constexpr double kDefaultWait = 60;

const std::vector<std::pair<std::string, ScriptStep::Kind>>& kinds() {
  using Kind = ScriptStep::Kind;
  static const std::vector<std::pair<std::string, Kind>> all = {{"click", Kind::click},
                                                                {"command", Kind::command},
                                                                {"double-click", Kind::double_click},
                                                                {"drop", Kind::drop},
                                                                {"dump-widgets", Kind::dump_widgets},
                                                                {"key", Kind::key},
                                                                {"open", Kind::open},
                                                                {"screenshot", Kind::screenshot},
                                                                {"select", Kind::select},
                                                                {"size", Kind::size},
                                                                {"sleep", Kind::sleep},
                                                                {"type", Kind::type},
                                                                {"wait", Kind::wait}};
  return all;
}

std::string place_of(const YAML::Mark& mark, const std::string& file) {
  return fmt::format("{}:{}", file, mark.line + 1);
}

ScriptStep::Kind parse_kind(const std::string& word, const std::string& place) {
  std::vector<std::string> known;
  for (const auto& [name, kind] : kinds()) {
    if (name == word) return kind;
    known.push_back(name);
  }
  throw_input_error("{}: found step '{}'{}", place, word, suggestion(word, known));
}

void read_arguments(ScriptStep& step, const YAML::Node& map, const char* main_key) {
  for (const auto& entry : map) {
    std::string key = entry.first.as<std::string>();
    if (!entry.second.IsScalar())
      throw_input_error("{}: {}: expected one value", place_of(entry.second.Mark(), step.place), key);
    if (key == main_key) step.text = entry.second.as<std::string>();
    step.arguments[key] = entry.second.as<std::string>();
  }
  if (step.text.empty()) throw_input_error("{}: needs '{}'", step.place, main_key);
}

ScriptStep parse_step(const YAML::Node& node, const std::string& file) {
  ScriptStep step;
  step.place = place_of(node.Mark(), file);
  if (node.IsScalar()) {
    step.kind = parse_kind(node.as<std::string>(), step.place);
    if (step.kind != ScriptStep::Kind::wait) throw_input_error("{}: '{}' needs a value", step.place, node.Scalar());
    step.number = kDefaultWait;
    return step;
  }
  if (!node.IsMap() || node.size() != 1)
    throw_input_error("{}: expected a step, such as 'wait' or 'click: NAME'", step.place);
  YAML::Node value = node.begin()->second;
  step.kind = parse_kind(node.begin()->first.as<std::string>(), step.place);
  using Kind = ScriptStep::Kind;
  bool named = step.kind == Kind::open || step.kind == Kind::command;
  if (named && value.IsMap()) {
    read_arguments(step, value, step.kind == Kind::open ? "file" : "name");
  } else if (step.kind == Kind::size) {
    if (!value.IsSequence() || value.size() != 2) throw_input_error("{}: size: expected [WIDTH, HEIGHT]", step.place);
    step.text = fmt::format("{}x{}", value[0].as<std::string>(), value[1].as<std::string>());
  } else {
    if (!value.IsScalar() || value.Scalar().empty())
      throw_input_error("{}: {}: expected one value", step.place, node.begin()->first.Scalar());
    step.text = value.as<std::string>();
    if (step.kind == Kind::open) step.arguments["file"] = step.text;
  }
  if (step.kind == Kind::wait || step.kind == Kind::sleep) {
    try {
      step.number = value.as<double>();
    } catch (const YAML::Exception&) {
      throw_input_error("{}: {}: found '{}', expected seconds", step.place, node.begin()->first.Scalar(), step.text);
    }
  }
  return step;
}

}  // namespace

std::vector<ScriptStep> parse_script(const std::string& text, const std::string& file) {
  try {
    YAML::Node root = read_yaml(text, file);
    if (!root.IsSequence()) throw_input_error("{}: expected a list of steps", place_of(root.Mark(), file));
    std::vector<ScriptStep> steps;
    for (const YAML::Node& node : root) steps.push_back(parse_step(node, file));
    return steps;
  } catch (const YAML::Exception& error) {
    throw_input_error("{}: {}", place_of(error.mark, file), error.msg);
  }
}

}  // namespace unity::gui
