// Reading YAML with errors that name file, line, column, found and expected. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace unity {

class YamlReader {
 public:
  // Parses the file; checks that it is a map with `format` and `version` as expected, or with one from `oldest` on.
  YamlReader(std::string file, std::string_view format, int version)
      : YamlReader(std::move(file), format, version, version) {}
  YamlReader(std::string file, std::string_view format, int oldest, int version);

  const YAML::Node& root() const { return root_; }
  const std::string& file() const { return file_; }
  int version() const { return version_; }

  [[noreturn]] void fail_at(const YAML::Node& node, const std::string& message) const;
  // Every key of the map is known.
  void check_keys(const YAML::Node& map, const std::vector<std::string>& known) const;
  YAML::Node require(const YAML::Node& map, const std::string& key) const;
  std::string text(const YAML::Node& node, std::string_view what) const;
  int positive_int(const YAML::Node& node, std::string_view what) const;
  double positive_number(const YAML::Node& node, std::string_view what) const;
  // Of 0 to kLongestLatency: many of them add up.
  Picoseconds short_time(const YAML::Node& node, std::string_view what) const;
  // The pairs of a map, in the order of the file.
  std::vector<std::pair<YAML::Node, YAML::Node>> entries(const YAML::Node& node, std::string_view what) const;
  std::vector<YAML::Node> items(const YAML::Node& node, std::string_view what) const;

  // A quantity with a unit, through one of the parsers of core/base/units.h.
  template <class T>
  T quantity(const YAML::Node& node, std::string_view what, Result<T> (*parse)(std::string_view)) const {
    Result<T> value = parse(text(node, what));
    if (value.ok()) return *value;
    const std::string& message =
        value.error().message;  // begins with the kind of quantity, which may be the key as well
    fail_at(node, message.starts_with(what) ? message : std::string(what) + ": " + message);
  }

 private:
  std::string file_;
  YAML::Node root_;
  int version_ = 0;
};

}  // namespace unity
