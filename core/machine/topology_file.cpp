#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "core/machine/collectives.h"
#include "core/machine/files.h"
#include "core/machine/yaml_read.h"

namespace unity {
namespace {

// A pattern on names: '*' stands for any text without a dot, '<i>' for a number that is the same at both ends of a
// link. The captured number; -1 where the pattern has no '<i>'; none where the name does not match.
std::optional<int> match(std::string_view pattern, std::string_view name, int captured = -1) {
  if (pattern.empty()) return name.empty() ? std::optional(captured) : std::nullopt;
  if (pattern[0] == '*') {
    for (std::size_t n = 0; n <= name.size(); ++n) {
      if (auto found = match(pattern.substr(1), name.substr(n), captured)) return found;
      if (n < name.size() && name[n] == '.') break;
    }
    return std::nullopt;
  }
  if (pattern.starts_with("<i>")) {
    int number = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || (captured >= 0 && captured != number)) return std::nullopt;
    return match(pattern.substr(3), name.substr(static_cast<std::size_t>(end - name.data())), number);
  }
  if (name.empty() || name[0] != pattern[0]) return std::nullopt;
  return match(pattern.substr(1), name.substr(1), captured);
}

// One part of the hierarchy: the whole machine, or for example "node0.socket1"; its vertices are contiguous.
struct Part {
  std::string path;
  std::size_t first_vertex = 0, end_vertex = 0;
};

class TopologyBuilder {
 public:
  TopologyBuilder(const YamlReader& yaml, std::filesystem::path devices_folder, std::string name, int nodes)
      : yaml_(yaml), devices_folder_(std::move(devices_folder)) {
    topology_.name = std::move(name);
    yaml.check_keys(yaml.root(), {"format", "version", "hierarchy", "device", "devices", "shared_compute", "switches",
                                  "links", "collectives"});
    if (yaml.root()["hierarchy"] && yaml.root()["devices"])
      yaml.fail_at(yaml.root()["devices"], "both 'hierarchy' and 'devices' are given, expected one of them");
    read_switches();
    if (yaml.root()["devices"])
      add_listed_devices(nodes);
    else
      add_hierarchy(nodes);
    if (YAML::Node links = yaml.root()["links"])
      for (const YAML::Node& link : yaml.items(links, "links")) add_links(link);
    if (YAML::Node name = yaml.root()["collectives"]) {
      Result<std::string> file =
          find_collectives(yaml.text(name, "collectives"), devices_folder_.parent_path().string());
      if (!file.ok()) yaml.fail_at(name, file.error().message);
      topology_.collectives = load_collectives(*file, topology_.specs.front().name);
    }
  }

  Topology take() && { return std::move(topology_); }

 private:
  struct End {
    VertexId vertex;
    int captured;
  };

  void read_switches() {
    YAML::Node switches = yaml_.root()["switches"];
    if (!switches) return;
    std::vector<std::string> known = {"machine"};
    if (YAML::Node hierarchy = yaml_.root()["hierarchy"])
      for (const auto& [level, count] : yaml_.entries(hierarchy, "hierarchy"))
        known.push_back(yaml_.text(level, "hierarchy"));
    yaml_.check_keys(switches, known);
    for (const auto& [level, names] : yaml_.entries(switches, "switches"))
      for (const YAML::Node& node : yaml_.items(names, "switches")) {
        std::string name = yaml_.text(node, "switches");
        std::vector<std::string>& list = switches_[level.Scalar()];
        std::size_t star = name.find('*');
        if (star == std::string::npos) {
          list.push_back(name);
          continue;
        }
        int count = 0;  // "nic*8": nic0 to nic7
        auto [end, error] = std::from_chars(name.data() + star + 1, name.data() + name.size(), count);
        if (error != std::errc() || end != name.data() + name.size() || count < 1)
          yaml_.fail_at(
              node, fmt::format("switches: found '{}', expected a name, or a name with a count such as 'nic*8'", name));
        for (int i = 0; i < count; ++i) list.push_back(fmt::format("{}{}", name.substr(0, star), i));
      }
  }

  void add_hierarchy(int nodes) {
    YAML::Node hierarchy = yaml_.require(yaml_.root(), "hierarchy");
    for (const auto& [level, count] : yaml_.entries(hierarchy, "hierarchy")) {
      std::string name = yaml_.text(level, "hierarchy");
      if (name == "machine") yaml_.fail_at(level, "hierarchy: the name 'machine' stands for the whole");
      for (const Level& other : topology_.levels)
        if (other.name == name) yaml_.fail_at(level, fmt::format("hierarchy: level '{}' is given twice", name));
      topology_.levels.push_back({name, yaml_.positive_int(count, fmt::format("hierarchy: {}", name))});
    }
    if (topology_.levels.empty()) yaml_.fail_at(hierarchy, "hierarchy: expected at least one level");
    Level& outermost = topology_.levels.front();
    if (nodes > 0) {
      if (outermost.name != "node")
        yaml_.fail_at(hierarchy, fmt::format("{} nodes asked for, but the outermost level is '{}', not 'node'", nodes,
                                             outermost.name));
      outermost.count = nodes;
    }
    topology_.nodes = outermost.name == "node" ? outermost.count : 1;
    if (YAML::Node shared = yaml_.root()["shared_compute"]) {
      yaml_.check_keys(shared, {"level", "units"});
      YAML::Node level = yaml_.require(shared, "level");
      shared_level_ = yaml_.text(level, "level");
      check_level(level, shared_level_);
      shared_units_ = yaml_.positive_number(yaml_.require(shared, "units"), "units");
    }
    parts_.resize(topology_.levels.size() + 1);
    add_part("", 0);
  }

  void check_level(const YAML::Node& node, const std::string& name) const {
    std::vector<std::string> known = {"machine"};
    for (const Level& l : topology_.levels) known.push_back(l.name);
    if (std::find(known.begin(), known.end(), name) == known.end())
      yaml_.fail_at(node, fmt::format("unknown level '{}'{}", name, suggestion(name, known)));
  }

  std::string level_name(std::size_t depth) const { return depth == 0 ? "machine" : topology_.levels[depth - 1].name; }

  // depth 0 is the machine, depth levels.size() a device.
  void add_part(const std::string& path, std::size_t depth) {
    std::size_t index = parts_[depth].size();
    parts_[depth].push_back({path, topology_.vertices.size(), 0});
    if (level_name(depth) == shared_level_) topology_.physical_devices.push_back({shared_units_});
    if (depth == topology_.levels.size()) {
      add_device(path, nullptr, shared_level_.empty());
    } else {
      const Level level = topology_.levels[depth];
      for (int i = 0; i < level.count; ++i)
        add_part(fmt::format("{}{}{}{}", path, path.empty() ? "" : ".", level.name, i), depth + 1);
    }
    add_switches(path, level_name(depth));
    parts_[depth][index].end_vertex = topology_.vertices.size();
  }

  void add_switches(const std::string& path, const std::string& level) {
    auto found = switches_.find(level);
    if (found == switches_.end()) return;
    for (const std::string& name : found->second)
      topology_.vertices.push_back({path.empty() ? name : path + "." + name, DeviceId{}});
  }

  void add_device(const std::string& path, const YAML::Node* file, bool own_physical) {
    Device device;
    device.name = path;
    device.vertex = VertexId(static_cast<std::int64_t>(topology_.vertices.size()));
    device.spec = file ? spec_index(*file) : spec_index(device_file_of(path));
    if (own_physical) topology_.physical_devices.push_back({1});
    device.physical = topology_.physical_devices.size() - 1;
    topology_.vertices.push_back({path, DeviceId(static_cast<std::int64_t>(topology_.devices.size()))});
    topology_.devices.push_back(std::move(device));
  }

  void add_listed_devices(int nodes) {
    YAML::Node list = yaml_.root()["devices"];
    if (nodes > 1) yaml_.fail_at(list, fmt::format("{} nodes asked for, but the devices are listed one by one", nodes));
    if (YAML::Node shared = yaml_.root()["shared_compute"]) yaml_.fail_at(shared, "shared_compute: needs a hierarchy");
    if (YAML::Node device = yaml_.root()["device"])
      yaml_.fail_at(device, "device: is for a hierarchy; listed devices name their own");
    parts_.resize(1);
    parts_[0].push_back({"", 0, 0});
    for (const YAML::Node& item : yaml_.items(list, "devices")) {
      yaml_.check_keys(item, {"name", "device"});
      YAML::Node file = yaml_.require(item, "device");
      add_device(yaml_.text(yaml_.require(item, "name"), "name"), &file, true);
    }
    if (topology_.devices.empty()) yaml_.fail_at(list, "devices: expected at least one");
    topology_.levels = {{"device", static_cast<int>(topology_.devices.size())}};
    add_switches("", "machine");
    parts_[0][0].end_vertex = topology_.vertices.size();
    std::set<std::string> names;
    for (const Vertex& v : topology_.vertices)
      if (!names.insert(v.name).second) yaml_.fail_at(list, fmt::format("the name '{}' is given twice", v.name));
  }

  // `device: file`, or a map from patterns to files of which the first match counts.
  YAML::Node device_file_of(const std::string& path) const {
    YAML::Node device = yaml_.require(yaml_.root(), "device");
    if (!device.IsMap()) return device;
    for (const auto& [pattern, file] : yaml_.entries(device, "device"))
      if (match(yaml_.text(pattern, "device"), path)) return file;
    yaml_.fail_at(device, fmt::format("device: no pattern matches {}", path));
  }

  std::size_t spec_index(const YAML::Node& file) {
    std::string name = yaml_.text(file, "device");
    auto found = std::find(spec_files_.begin(), spec_files_.end(), name);
    if (found != spec_files_.end()) return static_cast<std::size_t>(found - spec_files_.begin());
    std::filesystem::path beside = devices_folder_ / (name + ".yaml");
    if (std::filesystem::exists(beside)) {
      topology_.specs.push_back(load_device_file(beside.string()));
    } else {
      std::vector<std::string> known = device_names();
      if (name.find('/') == std::string::npos && std::find(known.begin(), known.end(), name) == known.end())
        yaml_.fail_at(file, fmt::format("unknown device '{}'{}", name, suggestion(name, known)));
      topology_.specs.push_back(load_device(name));
    }
    spec_files_.push_back(name);
    return topology_.specs.size() - 1;
  }

  void add_links(const YAML::Node& node) {
    yaml_.check_keys(node, {"within", "between", "pairs", "kind", "bandwidth", "latency"});
    Link link;
    link.kind = read_kind(yaml_.require(node, "kind"));
    YAML::Node bandwidth = yaml_.require(node, "bandwidth"), latency = yaml_.require(node, "latency");
    link.bandwidth = yaml_.quantity(bandwidth, "bandwidth", parse_bandwidth);
    if (!(link.bandwidth.rate > 0))
      yaml_.fail_at(bandwidth, fmt::format("bandwidth: found '{}', expected more than 0", bandwidth.Scalar()));
    link.latency = yaml_.quantity(latency, "latency", parse_time);
    if (link.latency.count < 0)
      yaml_.fail_at(latency, fmt::format("latency: found '{}', expected at least 0", latency.Scalar()));
    std::size_t depth = 0;
    if (YAML::Node within = node["within"]) {
      std::string level = yaml_.text(within, "within");
      check_level(within, level);
      while (level_name(depth) != level) ++depth;
      if (depth >= parts_.size() || depth == topology_.levels.size())
        yaml_.fail_at(within, fmt::format("within: '{}' is a device, expected a level that holds several", level));
    }
    std::vector<YAML::Node> pairs;
    if (YAML::Node between = node["between"]) pairs.push_back(between);
    if (YAML::Node list = node["pairs"])
      for (const YAML::Node& pair : yaml_.items(list, "pairs")) pairs.push_back(pair);
    if (pairs.empty()) yaml_.fail_at(node, "key 'between' or 'pairs' is missing");
    for (const YAML::Node& pair : pairs) {
      if (!pair.IsSequence() || pair.size() != 2) yaml_.fail_at(pair, "expected two ends, such as [gpu*, host]");
      for (const Part& part : parts_[depth]) connect(part, pair, link);
    }
  }

  LinkKind read_kind(const YAML::Node& node) const {
    std::vector<std::string> names;
    for (int k = 0; k <= static_cast<int>(LinkKind::memory); ++k) {
      names.emplace_back(to_string(static_cast<LinkKind>(k)));
      if (yaml_.text(node, "kind") == names.back()) return static_cast<LinkKind>(k);
    }
    yaml_.fail_at(node, fmt::format("unknown kind of link '{}'{}", node.Scalar(), suggestion(node.Scalar(), names)));
  }

  std::vector<End> find_ends(const Part& part, const YAML::Node& node) const {
    std::string pattern = yaml_.text(node, "link");
    std::size_t prefix = part.path.empty() ? 0 : part.path.size() + 1;
    std::vector<End> ends;
    for (std::size_t v = part.first_vertex; v < part.end_vertex; ++v) {
      std::string_view name = topology_.vertices[v].name;
      if (name.size() <= prefix) continue;
      if (auto captured = match(pattern, name.substr(prefix)))
        ends.push_back({VertexId(static_cast<std::int64_t>(v)), *captured});
    }
    if (ends.empty()) {
      std::vector<std::string> here;
      for (std::size_t v = part.first_vertex; v < part.end_vertex && here.size() < 12; ++v)
        if (topology_.vertices[v].name.size() > prefix) here.push_back(topology_.vertices[v].name.substr(prefix));
      yaml_.fail_at(node, fmt::format("link: '{}' matches nothing{}", pattern, suggestion(pattern, here)));
    }
    return ends;
  }

  void connect(const Part& part, const YAML::Node& pair, Link link) {
    std::vector<End> from = find_ends(part, pair[0]), to = find_ends(part, pair[1]);
    bool any = false, both_orders = pair[0].Scalar() == pair[1].Scalar();
    for (const End& a : from)
      for (const End& b : to) {
        if (a.vertex == b.vertex || (a.captured >= 0 && b.captured >= 0 && a.captured != b.captured)) continue;
        if (both_orders && b.vertex < a.vertex) continue;
        any = true;
        if (!linked_.insert(std::minmax(a.vertex, b.vertex)).second)
          yaml_.fail_at(pair, fmt::format("{} and {} are linked twice", topology_.vertices[a.vertex.index()].name,
                                          topology_.vertices[b.vertex.index()].name));
        link.from = a.vertex, link.to = b.vertex;
        topology_.links.push_back(link);
        std::swap(link.from, link.to);
        topology_.links.push_back(link);
      }
    if (!any && from.size() + to.size() > 2) yaml_.fail_at(pair, "the two ends match no pair");
  }

  const YamlReader& yaml_;
  std::filesystem::path devices_folder_;
  Topology topology_;
  std::map<std::string, std::vector<std::string>> switches_;  // by level
  std::string shared_level_;
  double shared_units_ = 1;
  std::vector<std::vector<Part>> parts_;  // by depth
  std::vector<std::string> spec_files_;
  std::set<std::pair<VertexId, VertexId>> linked_;
};

}  // namespace

std::vector<std::string> topology_names() { return yaml_names(topology_folder()); }

Topology load_topology(const std::string& name_or_path, const TopologyOptions& options) {
  std::filesystem::path path = name_or_path;
  if (name_or_path.find('/') == std::string::npos && path.extension() != ".yaml") {
    path = topology_folder() / (name_or_path + ".yaml");
    if (topology_names().empty())
      throw_input_error("unknown topology '{}': there are none in '{}'", name_or_path, topology_folder().string());
    if (!std::filesystem::exists(path))
      throw_input_error("unknown topology '{}'{}", name_or_path, suggestion(name_or_path, topology_names()));
  }
  if (options.nodes < 0 || options.devices < 0)
    throw_input_error("topology '{}': a negative count was asked for", name_or_path);
  YamlReader yaml(path.string(), "unity-topology", 1);
  Topology topology = TopologyBuilder(yaml, path.parent_path() / "devices", path.stem().string(), options.nodes).take();
  try {
    topology.finish();
  } catch (const InputError& e) {
    throw_input_error("{}: {}", path.string(), e.what());
  }
  return options.devices ? topology.first_devices(options.devices) : topology;
}

}  // namespace unity
