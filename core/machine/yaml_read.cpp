#include "core/machine/yaml_read.h"

#include <cmath>

#include "core/base/longest_time.h"
#include "core/base/read_yaml.h"

namespace unity {

YamlReader::YamlReader(std::string file, std::string_view format, int oldest, int version) : file_(std::move(file)) {
  root_ = read_yaml(read_file(file_), file_);
  if (!root_.IsMap()) throw_input_error("{}:1:1: expected a map with 'format: {}'", file_, format);
  YAML::Node found = require(root_, "format");
  if (text(found, "format") != format)
    fail_at(found, fmt::format("format: found '{}', expected '{}'", found.Scalar(), format));
  YAML::Node number = require(root_, "version");
  version_ = positive_int(number, "version");
  if (version_ < oldest || version_ > version)
    fail_at(number,
            fmt::format("version: found {}, expected {}", number.Scalar(),
                        oldest == version ? fmt::format("{}", version) : fmt::format("{} to {}", oldest, version)));
}

void YamlReader::fail_at(const YAML::Node& node, const std::string& message) const {
  YAML::Mark mark = node.Mark();
  throw_input_error("{}:{}:{}: {}", file_, mark.line + 1, mark.column + 1, message);
}

void YamlReader::check_keys(const YAML::Node& map, const std::vector<std::string>& known) const {
  for (const auto& [key, value] : entries(map, "entry")) {
    std::string name = text(key, "key");
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail_at(key, fmt::format("unknown key '{}'{}", name, suggestion(name, known)));
  }
}

YAML::Node YamlReader::require(const YAML::Node& map, const std::string& key) const {
  YAML::Node value = map[key];
  if (!value) fail_at(map, fmt::format("key '{}' is missing", key));
  return value;
}

std::string YamlReader::text(const YAML::Node& node, std::string_view what) const {
  if (!node.IsScalar()) fail_at(node, fmt::format("{}: expected one value, found a list, a map or nothing", what));
  return node.Scalar();
}

int YamlReader::positive_int(const YAML::Node& node, std::string_view what) const {
  int value = 0;
  if (!node.IsScalar() || !YAML::convert<int>::decode(node, value) || value < 1)
    fail_at(node, fmt::format("{}: found '{}', expected a whole number above 0", what,
                              node.IsScalar() ? node.Scalar() : "a list or map"));
  return value;
}

double YamlReader::positive_number(const YAML::Node& node, std::string_view what) const {
  double value = 0;
  if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !(value > 0) || !std::isfinite(value))
    fail_at(node, fmt::format("{}: found '{}', expected a number above 0", what,
                              node.IsScalar() ? node.Scalar() : "a list or map"));
  return value;
}

Picoseconds YamlReader::short_time(const YAML::Node& node, std::string_view what) const {
  Picoseconds time = quantity(node, what, parse_time);
  if (time.count < 0 || time > kLongestLatency)
    fail_at(node, fmt::format("{}: found '{}', expected 0 to {}", what, node.Scalar(), to_string(kLongestLatency)));
  return time;
}

std::vector<std::pair<YAML::Node, YAML::Node>> YamlReader::entries(const YAML::Node& node,
                                                                   std::string_view what) const {
  if (!node.IsMap()) fail_at(node, fmt::format("{}: expected a map", what));
  std::vector<std::pair<YAML::Node, YAML::Node>> result;
  for (const auto& pair : node) result.emplace_back(pair.first, pair.second);
  return result;
}

std::vector<YAML::Node> YamlReader::items(const YAML::Node& node, std::string_view what) const {
  if (!node.IsSequence()) fail_at(node, fmt::format("{}: expected a list", what));
  std::vector<YAML::Node> result;
  for (const auto& item : node) result.push_back(item);
  return result;
}

}  // namespace unity
