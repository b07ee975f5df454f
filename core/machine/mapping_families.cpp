#include "core/machine/mapping_families.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/machine/index_expression.h"
#include "core/machine/yaml_read.h"

namespace unity {
namespace {

constexpr int kMostDimensions = 8;
constexpr std::int64_t kMostMembers = 64;  // of a family, for one grid

// An expression and where it stands.
struct Placed {
  std::string place;  // "file:line:column: family 'snake': device"
  IndexExpression expression;

  std::int64_t value(const IndexScope& scope) const {
    Result<std::int64_t> found = expression.evaluate(scope.values);
    if (!found.ok()) throw_input_error("{}: {}", place, found.error().message);
    return *found;
  }
  int small_value(const IndexScope& scope) const {
    std::int64_t found = value(scope);
    if (std::abs(found) > 1 << 24) throw_input_error("{}: found {}, expected at most {}", place, found, 1 << 24);
    return static_cast<int>(found);
  }
};

std::string in_words(const TaskGrid& grid) {
  std::vector<std::string> degrees;
  for (const GridDim& g : grid) degrees.push_back(std::to_string(g.degree));
  return degrees.empty() ? "one task" : fmt::format("a task grid of {}", join(degrees, " x "));
}

}  // namespace

struct MappingFamilies::Family {
  std::string name, place;
  std::optional<int> dimensions;
  IndexScope scope;  // devices, tasks, d0.., levels; then the names of `each`, and task, x0.. where `device` is given
  std::size_t devices = 0, tasks = 0, degrees = 0, each_names = 0, task = 0, coordinates = 0;
  std::vector<Placed> where, each, start, strides, device;  // of all but each and strides, one or none
  std::vector<int> listed;

  Family(const YamlReader& yaml, const YAML::Node& node, const Topology& topology);
  void members(const TaskGrid& grid, std::vector<MachineMapping>& found) const;

 private:
  Placed parse(const YamlReader& yaml, const YAML::Node& node, const std::string& key) const;
  void name_each(const YamlReader& yaml, const YAML::Node& each);
  MachineMapping member(const TaskGrid& grid, IndexScope& values) const;
};

Placed MappingFamilies::Family::parse(const YamlReader& yaml, const YAML::Node& node, const std::string& key) const {
  Result<IndexExpression> parsed = IndexExpression::parse(yaml.text(node, key), scope);
  if (!parsed.ok()) yaml.fail_at(node, fmt::format("family '{}': {}: {}", name, key, parsed.error().message));
  YAML::Mark mark = node.Mark();
  return {fmt::format("{}:{}:{}: family '{}': {}", yaml.file(), mark.line + 1, mark.column + 1, name, key),
          std::move(*parsed)};
}

void MappingFamilies::Family::name_each(const YamlReader& yaml, const YAML::Node& node) {
  std::vector<std::pair<YAML::Node, YAML::Node>> entries = yaml.entries(node, "each");
  for (const auto& [key, count] : entries) {
    each.push_back(parse(yaml, count, "each"));
    // One that depends on the grid may well be none for some.
    IndexScope nothing;
    std::string text = yaml.text(count, "each");
    Result<IndexExpression> plain = IndexExpression::parse(text, nothing);
    if (Result<std::int64_t> found = plain.ok() ? plain->evaluate({}) : fail("names"); found.ok() && *found < 1)
      yaml.fail_at(count, fmt::format("family '{}': each: found {}, expected at least 1", name, *found));
  }
  each_names = scope.names().size();
  for (const auto& [key, count] : entries) {
    std::string fresh = yaml.text(key, "each");
    if (!is_index_name(fresh) || scope.find(fresh))
      yaml.fail_at(key, fmt::format("family '{}': each: found '{}', expected a name of letters, digits and '_' that "
                                    "nothing else has",
                                    name, fresh));
    scope.add(fresh);
  }
}

MappingFamilies::Family::Family(const YamlReader& yaml, const YAML::Node& node, const Topology& topology) {
  yaml.check_keys(node, {"name", "dimensions", "where", "each", "start", "strides", "device", "devices"});
  name = yaml.text(yaml.require(node, "name"), "name");
  place = fmt::format("{}:{}:{}", yaml.file(), node.Mark().line + 1, node.Mark().column + 1);
  if (YAML::Node count = node["dimensions"]) {
    dimensions = yaml.positive_int(count, "dimensions");
    if (*dimensions > kMostDimensions)
      yaml.fail_at(count, fmt::format("family '{}': dimensions: found {}, expected 1 to {}", name, *dimensions,
                                      kMostDimensions));
  }
  int forms = 0;
  for (const char* key : {"strides", "device", "devices"}) forms += node[key] ? 1 : 0;
  if (forms != 1)
    yaml.fail_at(
        node, fmt::format("family '{}': found {} of the keys strides, device and devices, expected one", name, forms));

  devices = scope.add("devices", static_cast<std::int64_t>(topology.device_count()));
  tasks = scope.add("tasks");
  degrees = scope.names().size();
  for (int d = 0; d < dimensions.value_or(0); ++d) scope.add(fmt::format("d{}", d));
  for (const Level& level : topology.levels)
    if (is_index_name(level.name) && !scope.find(level.name)) scope.add(level.name, level.count);
  if (YAML::Node names = node["each"]) name_each(yaml, names);
  if (YAML::Node condition = node["where"]) where.push_back(parse(yaml, condition, "where"));
  if (YAML::Node first = node["start"]) {
    if (!node["strides"])
      yaml.fail_at(first, fmt::format("family '{}': start: found it without strides, which it belongs to", name));
    start.push_back(parse(yaml, first, "start"));
  }
  if (YAML::Node list = node["strides"]) {
    for (const YAML::Node& stride : yaml.items(list, "strides")) strides.push_back(parse(yaml, stride, "strides"));
    if (dimensions != static_cast<int>(strides.size()))
      yaml.fail_at(
          list, fmt::format("family '{}': strides: found {} of them, expected one for each of the 'dimensions'{}", name,
                            strides.size(), dimensions ? fmt::format(", {}", *dimensions) : ", which are missing"));
  }
  if (YAML::Node list = node["devices"])
    for (const YAML::Node& item : yaml.items(list, "devices")) {
      int device = parse(yaml, item, "devices").small_value(scope);
      int last = static_cast<int>(topology.device_count()) - 1;
      if (device < 0 || device > last)
        yaml.fail_at(item, fmt::format("family '{}': devices: found {}, expected 0 to {}", name, device, last));
      if (std::find(listed.begin(), listed.end(), device) != listed.end())
        yaml.fail_at(item,
                     fmt::format("family '{}': devices: found {} twice, expected each device once", name, device));
      listed.push_back(device);
    }
  if (YAML::Node expression = node["device"]) {
    task = scope.add("task");
    coordinates = scope.names().size();
    for (int d = 0; d < dimensions.value_or(0); ++d) scope.add(fmt::format("x{}", d));
    device.push_back(parse(yaml, expression, "device"));
  }
}

MachineMapping MappingFamilies::Family::member(const TaskGrid& grid, IndexScope& values) const {
  MachineMapping mapping;
  if (!strides.empty()) {
    mapping.start = start.empty() ? 0 : start[0].small_value(values);
    for (const Placed& stride : strides) mapping.strides.push_back(stride.small_value(values));
    return mapping;
  }
  // Places in grid order: the last dimension innermost.
  mapping.strides.resize(grid.size());
  int step = 1;
  for (std::size_t g = grid.size(); g-- > 0;) mapping.strides[g] = step, step *= grid[g].degree;
  mapping.places = listed;
  for (int t = 0; t < step && !device.empty(); ++t) {
    values.values[task] = t;
    std::vector<int> x = grid_coordinates(grid, t);
    if (dimensions)
      for (std::size_t d = 0; d < x.size(); ++d) values.values[coordinates + d] = x[d];
    mapping.places.push_back(device[0].small_value(values));
  }
  return mapping;
}

void MappingFamilies::Family::members(const TaskGrid& grid, std::vector<MachineMapping>& found) const {
  int count = task_count(grid);
  if (dimensions && *dimensions != static_cast<int>(grid.size())) return;
  if (!listed.empty() && static_cast<int>(listed.size()) != count) return;
  IndexScope values = scope;
  values.values[tasks] = count;
  if (dimensions)
    for (std::size_t d = 0; d < grid.size(); ++d) values.values[degrees + d] = grid[d].degree;
  std::vector<std::int64_t> counts;
  std::int64_t all = 1;
  for (const Placed& each_count : each) {
    counts.push_back(std::max<std::int64_t>(0, each_count.value(values)));
    all *= std::min(counts.back(), kMostMembers + 1);
    if (all > kMostMembers)
      throw_input_error("{}: found more than {} mappings for {}, expected at most as many", each_count.place,
                        kMostMembers, in_words(grid));
  }
  for (std::int64_t number = 0; number < all; ++number) {
    std::int64_t rest = number;
    for (std::size_t e = counts.size(); e-- > 0;) values.values[each_names + e] = rest % counts[e], rest /= counts[e];
    if (!where.empty() && where[0].value(values) == 0) continue;
    MachineMapping mapping = member(grid, values);
    auto devices_there = static_cast<int>(values.values[devices]);
    Result<void> ok = check_mapping(mapping, grid, devices_there);
    std::set<int> distinct(mapping.places.begin(), mapping.places.end());
    if (ok.ok() && distinct.size() < mapping.places.size())
      ok = fail("mapping ({}): found two tasks on one device, expected one on each", to_string(mapping));
    if (!ok.ok()) throw_input_error("{}: family '{}', {}: {}", place, name, in_words(grid), ok.error().message);
    if (std::find(found.begin(), found.end(), mapping) == found.end()) found.push_back(std::move(mapping));
  }
}

MappingFamilies::MappingFamilies(const std::string& file, const Topology& topology)
    : devices_(static_cast<int>(topology.device_count())), text_hash_(hash_text(read_file(file))) {
  YamlReader yaml(file, "unity-mappings", 1);
  yaml.check_keys(yaml.root(), {"format", "version", "families"});
  for (const YAML::Node& node : yaml.items(yaml.require(yaml.root(), "families"), "families")) {
    families_.push_back(std::make_shared<const Family>(yaml, node, topology));
    for (std::size_t f = 0; f + 1 < families_.size(); ++f)
      if (families_[f]->name == families_.back()->name)
        yaml.fail_at(node, fmt::format("family '{}' is given twice", families_[f]->name));
  }
}

std::vector<MachineMapping> MappingFamilies::mappings(const TaskGrid& grid) const {
  std::vector<MachineMapping> found;
  if (task_count(grid) > devices_) return found;
  for (const auto& family : families_) family->members(grid, found);
  return found;
}

std::vector<std::string> MappingFamilies::names() const {
  std::vector<std::string> names;
  for (const auto& family : families_) names.push_back(family->name);
  return names;
}

}  // namespace unity
