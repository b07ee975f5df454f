#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/base/path_inside.h"
#include "core/machine/collectives.h"
#include "core/machine/files.h"
#include "core/machine/mapping_families.h"
#include "core/machine/name_pattern.h"
#include "core/machine/topology_parts.h"

namespace unity {
namespace {

class TopologyBuilder {
 public:
  TopologyBuilder(const YamlReader& yaml, std::filesystem::path devices_folder, std::string name, int nodes)
      : yaml_(yaml), devices_folder_(std::move(devices_folder)) {
    topology_.name = std::move(name);
    yaml.check_keys(yaml.root(),
                    {"format", "version", "hierarchy", "device", "devices", "shared_compute", "parameters", "require",
                     "switches", "links", "routing", "forwarding", "routes", "collectives", "mapping_families"});
    if (yaml.root()["hierarchy"] && yaml.root()["devices"])
      yaml.fail_at(yaml.root()["devices"], "both 'hierarchy' and 'devices' are given, expected one of them");
    if (yaml.root()["devices"])
      add_listed_devices(nodes);
    else
      add_hierarchy(nodes);
    if (YAML::Node routing = yaml.root()["routing"]) {
      std::string found = yaml.text(routing, "routing");
      if (found != "shortest" && found != "ecmp")
        yaml.fail_at(routing, fmt::format("routing: found '{}', expected shortest or ecmp", found));
      if (found == "ecmp") topology_.routing = Routing::ecmp;
    }
    read_links(yaml, parts_);
    if (YAML::Node name = yaml.root()["collectives"]) {
      Result<std::string> file =
          find_collectives(yaml.text(name, "collectives"), devices_folder_.parent_path().string());
      if (!file.ok()) yaml.fail_at(name, file.error().message);
      topology_.collectives = load_collectives(*file, topology_.specs.front().name);
    }
  }

  Topology take() && { return std::move(topology_); }

 private:
  struct Switch {
    std::string name;
    YAML::Node node;
    std::optional<Link> inside;
    bool host = false;
  };

  void read_parameters() {
    for (const Level& level : topology_.levels)
      if (is_index_name(level.name)) parts_.scope.add(level.name, level.count);
    if (YAML::Node parameters = yaml_.root()["parameters"])
      for (const auto& [key, value] : yaml_.entries(parameters, "parameters")) {
        std::string name = yaml_.text(key, "parameters");
        if (!is_index_name(name))
          yaml_.fail_at(key, fmt::format("parameters: found '{}', expected a name of letters, digits and '_'", name));
        if (parts_.scope.find(name))
          yaml_.fail_at(key, fmt::format("parameters: the name '{}' is given twice, or is that of a level", name));
        std::int64_t number = evaluate(yaml_, value, name, parts_.scope);
        parts_.scope.add(name, number);
      }
    if (YAML::Node require = yaml_.root()["require"])
      for (const YAML::Node& condition : yaml_.items(require, "require")) {
        if (evaluate(yaml_, condition, "require", parts_.scope)) continue;
        std::vector<std::string> values;
        for (std::size_t i = 0; i < parts_.scope.values.size(); ++i)
          values.push_back(fmt::format("{} = {}", parts_.scope.names()[i], parts_.scope.values[i]));
        yaml_.fail_at(condition, fmt::format("require: found {}, expected {}", join(values), condition.Scalar()));
      }
  }

  void read_switches() {
    YAML::Node switches = yaml_.root()["switches"];
    if (!switches) return;
    std::vector<std::string> known = {"machine"};
    for (const Level& level : topology_.levels) known.push_back(level.name);
    yaml_.check_keys(switches, known);
    for (const auto& [level, list] : yaml_.entries(switches, "switches"))
      for (const YAML::Node& item : yaml_.items(list, "switches")) read_switch(item, switches_[level.Scalar()]);
  }

  // "name", "nic*8" (nic0 to nic7; the count is an expression), or a map with such a name, and a capacity or that it is
  // a host.
  void read_switch(const YAML::Node& item, std::vector<Switch>& list) {
    YAML::Node named = item;
    std::optional<Link> inside;
    bool host = false;
    if (item.IsMap()) {
      yaml_.check_keys(item, {"name", "capacity", "latency", "host"});
      named.reset(yaml_.require(item, "name"));
      host = is_host(item);
    }
    if (item.IsMap() && (!item["host"] || item["capacity"] || item["latency"])) {
      YAML::Node capacity = yaml_.require(item, "capacity");
      inside.emplace();
      inside->kind = LinkKind::switching;
      inside->bandwidth = yaml_.quantity(capacity, "capacity", parse_bandwidth);
      if (!(inside->bandwidth.rate > 0))
        yaml_.fail_at(capacity, fmt::format("capacity: found '{}', expected more than 0", capacity.Scalar()));
      if (YAML::Node latency = item["latency"]) inside->latency = yaml_.short_time(latency, "latency");
    }
    std::string text = yaml_.text(named, "switches"), stem = text.substr(0, text.find('*'));
    if (stem.empty() || stem.find_first_of(".<> ") != std::string::npos)
      yaml_.fail_at(named, fmt::format("switches: found '{}', expected a name without '.', '<' and blanks, or one with "
                                       "a count such as 'nic*8'",
                                       text));
    for (const Level& level : topology_.levels)
      if (stem == level.name)
        yaml_.fail_at(named, fmt::format("switches: found '{}', expected another name than that of a level", text));
    if (stem.size() == text.size()) return list.push_back({text, named, inside, host});
    Result<IndexExpression> expression = IndexExpression::parse(text.substr(stem.size() + 1), parts_.scope);
    Result<std::int64_t> count = expression.ok() ? expression->evaluate(parts_.scope.values) : expression.error();
    if (!count.ok()) yaml_.fail_at(named, fmt::format("switches: '{}': {}", text, count.error().message));
    if (*count < 1 || *count > kMostSwitches)
      yaml_.fail_at(named, fmt::format("switches: '{}': found {}, expected 1 to {}", text, *count, kMostSwitches));
    if ((switches_read_ += *count) > kMostSwitches)
      yaml_.fail_at(named, fmt::format("switches: '{}': with it there are more than {}", text, kMostSwitches));
    for (std::int64_t i = 0; i < *count; ++i) list.push_back({fmt::format("{}{}", stem, i), named, inside, host});
  }

  bool is_host(const YAML::Node& item) const {
    YAML::Node host = item["host"];
    if (!host) return false;
    std::string text = yaml_.text(host, "host");
    if (text != "true" && text != "false")
      yaml_.fail_at(host, fmt::format("host: found '{}', expected true or false", text));
    return text == "true";
  }

  void add_hierarchy(int nodes) {
    YAML::Node hierarchy = yaml_.require(yaml_.root(), "hierarchy");
    for (const auto& [level, count] : yaml_.entries(hierarchy, "hierarchy")) {
      std::string name = yaml_.text(level, "hierarchy");
      if (name == "machine") yaml_.fail_at(level, "hierarchy: the name 'machine' stands for the whole");
      if (topology_.levels.size() == kMostLevels)
        yaml_.fail_at(level, fmt::format("hierarchy: found more than {} levels", kMostLevels));
      read_count(name, count);
    }
    if (topology_.levels.empty()) yaml_.fail_at(hierarchy, "hierarchy: expected at least one level");
    Level& outermost = topology_.levels.front();
    // A machine without nodes is one.
    if (nodes > (outermost.name == "node" ? 0 : 1)) {
      if (outermost.name != "node")
        yaml_.fail_at(hierarchy, fmt::format("{} nodes asked for, but the outermost level is '{}', not 'node'", nodes,
                                             outermost.name));
      outermost.count = nodes;
    }
    std::int64_t devices = 1;
    for (const Level& level : topology_.levels)
      if ((devices *= level.count) > kMostDevices)
        yaml_.fail_at(hierarchy, fmt::format("hierarchy: more than {} devices", kMostDevices));
    topology_.nodes = outermost.name == "node" ? outermost.count : 1;
    if (YAML::Node shared = yaml_.root()["shared_compute"]) {
      yaml_.check_keys(shared, {"level", "units"});
      YAML::Node level = yaml_.require(shared, "level");
      shared_level_ = yaml_.text(level, "level");
      parts_.check_level(yaml_, level, shared_level_);
      shared_units_ = yaml_.positive_number(yaml_.require(shared, "units"), "units");
    }
    read_parameters();
    read_switches();
    parts_.parts.resize(topology_.levels.size() + 1);
    add_part("", 0);
    for (std::size_t l = 0; l < topology_.levels.size(); ++l)
      if (!counts_[l].empty() && parts_.parts[l].size() != counts_[l].size())
        yaml_.fail_at(
            hierarchy[topology_.levels[l].name],
            fmt::format("hierarchy: {}: found {} counts, expected one for each {}, of which there are {}",
                        topology_.levels[l].name, counts_[l].size(), parts_.level_name(l), parts_.parts[l].size()));
  }

  // Of parts in each part of the level outside: one number for all of these, or a list with one for each.
  void read_count(const std::string& level, const YAML::Node& node) {
    std::string what = fmt::format("hierarchy: {}", level);
    std::vector<int> counts;
    if (node.IsSequence()) {
      if (topology_.levels.empty())
        yaml_.fail_at(node, fmt::format("{}: found a list, expected a number, as this is the outermost level", what));
      for (const YAML::Node& count : yaml_.items(node, what)) counts.push_back(yaml_.positive_int(count, what));
      if (counts.empty()) yaml_.fail_at(node, fmt::format("{}: found an empty list, expected counts", what));
      uneven_ = uneven_ || std::set<int>(counts.begin(), counts.end()).size() > 1;
    }
    topology_.levels.push_back(
        {level, counts.empty() ? yaml_.positive_int(node, what) : *std::max_element(counts.begin(), counts.end())});
    counts_.push_back(std::move(counts));
  }

  // depth 0 is the machine, depth levels.size() a device.
  void add_part(const std::string& path, std::size_t depth) {
    std::size_t index = parts_.parts[depth].size();
    parts_.parts[depth].push_back({path, topology_.vertices.size(), 0});
    std::string level_name = parts_.level_name(depth);
    if (uneven_ && depth > 0 && depth < topology_.levels.size())
      topology_.levels[depth - 1].begins.push_back(static_cast<int>(topology_.devices.size()));
    if (level_name == shared_level_) topology_.physical_devices.push_back({shared_units_});
    if (depth == topology_.levels.size()) {
      add_device(path, device_file_of(path), yaml_.root()["hierarchy"], shared_level_.empty());
    } else {
      const Level level = topology_.levels[depth];
      const std::vector<int>& counts = counts_[depth];
      int count = counts.empty() ? level.count : counts[std::min(index, counts.size() - 1)];
      for (int i = 0; i < count; ++i)
        add_part(fmt::format("{}{}{}{}", path, path.empty() ? "" : ".", level.name, i), depth + 1);
    }
    add_switches(path, level_name);
    parts_.parts[depth][index].end_vertex = topology_.vertices.size();
  }

  void add_switches(const std::string& path, const std::string& level) {
    auto found = switches_.find(level);
    if (found == switches_.end()) return;
    for (const Switch& s : found->second) {
      VertexId vertex = add_vertex(path.empty() ? s.name : path + "." + s.name, DeviceId{}, s.node);
      topology_.vertices[vertex.index()].host = s.host;
      if (!s.inside) continue;
      Link inside = *s.inside;
      inside.from = inside.to = vertex;
      parts_.inside.emplace_back(vertex, inside);
    }
  }

  VertexId add_vertex(const std::string& name, DeviceId device, const YAML::Node& node) {
    VertexId vertex(static_cast<std::int64_t>(topology_.vertices.size()));
    if (topology_.vertices.size() >= kMostVertices)
      yaml_.fail_at(node,
                    fmt::format("found more than {} devices and switches, expected at most as many", kMostVertices));
    if (!parts_.vertex_named.emplace(name, vertex).second)
      yaml_.fail_at(node, fmt::format("the name '{}' is given twice", name));
    topology_.vertices.push_back({name, device});
    return vertex;
  }

  void add_device(const std::string& name, const YAML::Node& file, const YAML::Node& named, bool own_physical) {
    Device device;
    device.name = name;
    device.vertex = add_vertex(name, DeviceId(static_cast<std::int64_t>(topology_.devices.size())), named);
    device.spec = spec_index(file);
    if (own_physical) topology_.physical_devices.push_back({1});
    device.physical = topology_.physical_devices.size() - 1;
    topology_.devices.push_back(std::move(device));
  }

  void add_listed_devices(int nodes) {
    YAML::Node list = yaml_.root()["devices"];
    if (nodes > 1) yaml_.fail_at(list, fmt::format("{} nodes asked for, but the devices are listed one by one", nodes));
    if (YAML::Node shared = yaml_.root()["shared_compute"]) yaml_.fail_at(shared, "shared_compute: needs a hierarchy");
    if (YAML::Node device = yaml_.root()["device"])
      yaml_.fail_at(device, "device: is for a hierarchy; listed devices name their own");
    parts_.parts.resize(1);
    parts_.parts[0].push_back({"", 0, 0});
    for (const YAML::Node& item : yaml_.items(list, "devices")) {
      yaml_.check_keys(item, {"name", "device"});
      YAML::Node file = yaml_.require(item, "device"), name = yaml_.require(item, "name");
      add_device(yaml_.text(name, "name"), file, name, true);
    }
    if (topology_.devices.empty()) yaml_.fail_at(list, "devices: expected at least one");
    topology_.levels = {{"device", static_cast<int>(topology_.devices.size())}};
    read_parameters();
    read_switches();
    add_switches("", "machine");
    parts_.parts[0][0].end_vertex = topology_.vertices.size();
  }

  // `device: file`, or a map from patterns to files of which the first match counts.
  YAML::Node device_file_of(const std::string& path) const {
    YAML::Node device = yaml_.require(yaml_.root(), "device");
    if (!device.IsMap()) return device;
    for (const auto& [key, file] : yaml_.entries(device, "device")) {
      IndexScope scope;
      Result<NamePattern> pattern = NamePattern::parse(yaml_.text(key, "device"), scope);
      if (pattern.ok()) pattern = pattern->bind(scope.values);
      if (!pattern.ok()) yaml_.fail_at(key, "device: " + pattern.error().message);
      if (pattern->match(path, scope.values)) return file;
    }
    yaml_.fail_at(device, fmt::format("device: no pattern matches {}", path));
  }

  std::size_t spec_index(const YAML::Node& file) {
    std::string name = yaml_.text(file, "device");
    auto found = std::find(spec_files_.begin(), spec_files_.end(), name);
    if (found != spec_files_.end()) return static_cast<std::size_t>(found - spec_files_.begin());
    auto beside = path_inside(devices_folder_, name + ".yaml");
    if (!beside.ok()) yaml_.fail_at(file, "device: " + beside.error().message);
    if (std::filesystem::exists(*beside)) {
      topology_.specs.push_back(load_device_file(beside->string()));
    } else {
      std::vector<std::string> known = device_names();
      if (std::find(known.begin(), known.end(), name) == known.end())
        yaml_.fail_at(file, fmt::format("unknown device '{}'{}", name, suggestion(name, known)));
      topology_.specs.push_back(load_device(name));
    }
    spec_files_.push_back(name);
    return topology_.specs.size() - 1;
  }

  static constexpr std::int64_t kMostDevices = 1 << 20, kMostSwitches = 1 << 20;
  static constexpr std::size_t kMostLevels = 16, kMostVertices = std::size_t{1} << 21;

  const YamlReader& yaml_;
  std::filesystem::path devices_folder_;
  TopologyParts parts_;
  Topology& topology_ = parts_.topology;
  std::map<std::string, std::vector<Switch>> switches_;  // by level
  std::vector<std::vector<int>> counts_;                 // by level: of each part of the level outside; empty: of all
  std::int64_t switches_read_ = 0;
  bool uneven_ = false;
  std::string shared_level_;
  double shared_units_ = 1;
  std::vector<std::string> spec_files_;
};

}  // namespace

std::vector<std::string> topology_names() { return yaml_names(topology_folder()); }

std::filesystem::path topology_path(const std::string& name_or_path) {
  std::filesystem::path path = name_or_path;
  if (name_or_path.find('/') != std::string::npos || path.extension() == ".yaml") return path;
  path = topology_folder() / (name_or_path + ".yaml");
  if (topology_names().empty())
    throw_input_error("unknown topology '{}': there are none in '{}'", name_or_path, topology_folder().string());
  if (!std::filesystem::exists(path))
    throw_input_error("unknown topology '{}'{}", name_or_path, suggestion(name_or_path, topology_names()));
  return path;
}

Topology load_topology(const std::string& name_or_path, const TopologyOptions& options) {
  const std::filesystem::path path = topology_path(name_or_path);
  if (options.nodes < 0 || options.devices < 0)
    throw_input_error("topology '{}': a negative count was asked for", name_or_path);
  YamlReader yaml(path.string(), "unity-topology", 1);
  Topology topology = TopologyBuilder(yaml, path.parent_path() / "devices", path.stem().string(), options.nodes).take();
  try {
    topology.finish();
  } catch (const InputError& e) {
    YAML::Node links = yaml.root()["links"];
    yaml.fail_at(links ? links : yaml.root(), e.what());
  }
  if (options.devices) topology = topology.first_devices(options.devices);
  if (YAML::Node file = yaml.root()["mapping_families"]) {
    auto families = path_inside(path.parent_path(), yaml.text(file, "mapping_families"));
    if (!families.ok()) yaml.fail_at(file, "mapping_families: " + families.error().message);
    if (!std::filesystem::exists(*families))
      yaml.fail_at(file, fmt::format("mapping_families: found no file '{}'", families->string()));
    topology.mapping_families = std::make_shared<const MappingFamilies>(families->string(), topology);
  }
  return topology;
}

}  // namespace unity
