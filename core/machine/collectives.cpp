#include "core/machine/collectives.h"

#include <algorithm>

#include "core/base/path_inside.h"
#include "core/machine/files.h"
#include "core/machine/yaml_read.h"

namespace unity {
namespace {

constexpr std::array<std::string_view, kCollectiveAlgorithms> kNames = {"ring",   "tree",  "hierarchical", "in_switch",
                                                                        "direct", "chain", "binomial"};
constexpr std::array<const char*, kHopClasses> kClasses = {"nvlink", "pci", "net"};

CollectiveAlgorithm read_algorithm(const YamlReader& yaml, const YAML::Node& node) {
  Result<CollectiveAlgorithm> algorithm = parse_collective_algorithm(yaml.text(node, "algorithm"));
  if (!algorithm.ok()) yaml.fail_at(node, algorithm.error().message);
  return *algorithm;
}

std::vector<CollectiveAlgorithm> read_algorithms(const YamlReader& yaml, const YAML::Node& node) {
  std::vector<CollectiveAlgorithm> algorithms;
  for (const YAML::Node& item : yaml.items(node, "algorithms")) algorithms.push_back(read_algorithm(yaml, item));
  if (algorithms.empty()) yaml.fail_at(node, "algorithms: expected at least one");
  return algorithms;
}

// One figure, or [on 1, on 2 or 3, on 4 or more nodes].
template <class Read>
ByNodes read_by_nodes(const YamlReader& yaml, const YAML::Node& node, const std::string& what, Read read) {
  if (!node.IsSequence()) {
    double value = read(node);
    return {value, value, value};
  }
  std::vector<YAML::Node> items = yaml.items(node, what);
  if (items.size() != 3)
    yaml.fail_at(node, fmt::format("{}: found {} figures, expected one, or three: on 1, 2 and 4 or more nodes", what,
                                   items.size()));
  return {read(items[0]), read(items[1]), read(items[2])};
}

double read_fraction(const YamlReader& yaml, const YAML::Node& node, const std::string& what) {
  double value = yaml.positive_number(node, what);
  if (value > 1) yaml.fail_at(node, fmt::format("{}: found {}, expected a fraction of at most 1", what, value));
  return value;
}

ProtocolCosts read_costs(const YamlReader& yaml, const YAML::Node& node) {
  yaml.check_keys(node, {"base", "nvlink", "pci", "net", "efficiency"});
  ProtocolCosts costs;
  costs.base = yaml.short_time(yaml.require(node, "base"), "base");
  for (std::size_t c = 0; c < kHopClasses; ++c)
    costs.hops[c] = yaml.short_time(yaml.require(node, kClasses[c]), kClasses[c]);
  if (YAML::Node efficiency = node["efficiency"])
    costs.efficiency = read_by_nodes(yaml, efficiency, "efficiency",
                                     [&](const YAML::Node& n) { return read_fraction(yaml, n, "efficiency"); });
  return costs;
}

CollectiveProtocol read_protocol(const YamlReader& yaml, std::string name, const YAML::Node& node) {
  CollectiveProtocol protocol;
  protocol.name = std::move(name);
  std::vector<std::string> known = {"network_overhead"};
  known.insert(known.end(), kNames.begin(), kNames.end());
  yaml.check_keys(node, known);
  for (const auto& [key, value] : yaml.entries(node, protocol.name)) {
    if (key.Scalar() == "network_overhead")
      protocol.network_overhead = yaml.short_time(value, "network_overhead");
    else
      protocol.costs[static_cast<std::size_t>(read_algorithm(yaml, key))] = read_costs(yaml, value);
  }
  return protocol;
}

RateLimit read_limit(const YamlReader& yaml, const YAML::Node& node, const CollectiveLibrary& library) {
  yaml.check_keys(node, {"protocol", "algorithm", "total", "per_channel"});
  RateLimit limit;
  if (YAML::Node protocol = node["protocol"]) {
    limit.protocol = yaml.text(protocol, "protocol");
    std::vector<std::string> names;
    for (const CollectiveProtocol& p : library.protocols) names.push_back(p.name);
    if (std::find(names.begin(), names.end(), limit.protocol) == names.end())
      yaml.fail_at(protocol, fmt::format("unknown protocol '{}'{}", limit.protocol, suggestion(limit.protocol, names)));
  }
  if (YAML::Node algorithm = node["algorithm"]) limit.algorithm = read_algorithm(yaml, algorithm);
  YAML::Node total = node["total"], each = node["per_channel"];
  if (total.IsDefined() == each.IsDefined()) yaml.fail_at(node, "limit: expected either 'total' or 'per_channel'");
  auto read_rate = [&](const YAML::Node& n) {
    double rate = yaml.quantity(n, "limit", parse_bandwidth).rate;
    if (!(rate > 0)) yaml.fail_at(n, fmt::format("limit: found '{}', expected more than 0", n.Scalar()));
    return rate;
  };
  limit.rate = read_by_nodes(yaml, total ? total : each, "limit", read_rate);
  if (each)
    for (double& rate : limit.rate) rate *= library.channels;
  return limit;
}

// The first entry that names the beginning of the device's name.
void read_machine(const YamlReader& yaml, const std::string& device, CollectiveLibrary& library) {
  YAML::Node machines = yaml.root()["machines"];
  if (!machines) return;
  std::vector<std::string> known;
  for (const YAML::Node& node : yaml.items(machines, "machines")) {
    yaml.check_keys(node, {"devices", "algorithms", "channels", "link_efficiency", "limits"});
    bool found = false;
    for (const YAML::Node& item : yaml.items(yaml.require(node, "devices"), "devices")) {
      known.push_back(yaml.text(item, "devices"));
      found = found || device.starts_with(known.back());
    }
    if (!found) continue;
    if (YAML::Node algorithms = node["algorithms"]) library.algorithms = read_algorithms(yaml, algorithms);
    if (YAML::Node channels = node["channels"]) library.channels = yaml.positive_int(channels, "channels");
    if (YAML::Node efficiency = node["link_efficiency"]) {
      yaml.check_keys(efficiency, {kClasses.begin(), kClasses.end()});
      for (std::size_t c = 0; c < kHopClasses; ++c)
        if (YAML::Node value = efficiency[kClasses[c]])
          library.link_efficiency[c] = read_fraction(yaml, value, "link_efficiency");
    }
    if (YAML::Node limits = node["limits"])
      for (const YAML::Node& limit : yaml.items(limits, "limits"))
        library.limits.push_back(read_limit(yaml, limit, library));
    return;
  }
  yaml.fail_at(machines,
               fmt::format("machines: no entry for the device '{}', expected one of: {}", device, join(known)));
}

}  // namespace

std::string_view to_string(CollectiveAlgorithm algorithm) { return kNames[static_cast<std::size_t>(algorithm)]; }

HopClass class_of(LinkKind kind) {
  if (kind == LinkKind::infiniband || kind == LinkKind::ethernet) return HopClass::net;
  return kind == LinkKind::pcie || kind == LinkKind::xbus ? HopClass::pci : HopClass::nvlink;
}

Result<CollectiveAlgorithm> parse_collective_algorithm(std::string_view text) {
  auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end())
    return fail("unknown collective algorithm '{}'{}", text, suggestion(text, {kNames.begin(), kNames.end()}));
  return static_cast<CollectiveAlgorithm>(found - kNames.begin());
}

const ProtocolCosts* CollectiveProtocol::of(CollectiveAlgorithm algorithm) const {
  const auto& own = costs[static_cast<std::size_t>(algorithm)];
  if (own) return &*own;
  if (algorithm == CollectiveAlgorithm::tree || algorithm == CollectiveAlgorithm::in_switch) return nullptr;
  const auto& ring = costs[static_cast<std::size_t>(CollectiveAlgorithm::ring)];
  return ring ? &*ring : nullptr;
}

double CollectiveLibrary::limit(CollectiveAlgorithm algorithm, const CollectiveProtocol& protocol,
                                std::size_t on_nodes) const {
  double least = std::numeric_limits<double>::infinity();
  for (const RateLimit& l : limits)
    if ((l.protocol.empty() || l.protocol == protocol.name) && (!l.algorithm || *l.algorithm == algorithm))
      least = std::min(least, at_nodes(l.rate, on_nodes));
  return least;
}

Result<std::string> find_collectives(const std::string& name, const std::string& folder) {
  namespace fs = std::filesystem;
  fs::path path = name;
  if (name.find('/') != std::string::npos || path.extension() == ".yaml") {
    auto inside = path_inside(folder, name);
    if (!inside.ok()) return fail("collectives: {}", inside.error().message);
    if (!fs::exists(*inside)) return fail("collectives: file {} does not exist", inside->string());
    return inside->string();
  }
  path = fs::path(folder) / "collectives" / (name + ".yaml");
  if (!fs::exists(path)) path = topology_folder() / "collectives" / (name + ".yaml");
  if (!fs::exists(path))
    return fail("unknown collectives '{}'{}", name, suggestion(name, yaml_names(path.parent_path())));
  return path.string();
}

std::shared_ptr<const CollectiveLibrary> load_collectives(const std::string& file, const std::string& device) {
  YamlReader yaml(file, "unity-collectives", 1);
  const YAML::Node& root = yaml.root();
  yaml.check_keys(root, {"format", "version", "algorithms", "trees_inside_nodes", "protocols", "machines"});
  auto library = std::make_shared<CollectiveLibrary>();
  library->name = std::filesystem::path(file).stem().string();
  library->algorithms = read_algorithms(yaml, yaml.require(root, "algorithms"));
  if (YAML::Node trees = root["trees_inside_nodes"]) {
    std::string text = yaml.text(trees, "trees_inside_nodes");
    if (text != "tree" && text != "chain")
      yaml.fail_at(trees, fmt::format("trees_inside_nodes: found '{}', expected tree or chain", text));
    library->chains_in_nodes = text == "chain";
  }
  YAML::Node protocols = yaml.require(root, "protocols");
  for (const auto& [key, value] : yaml.entries(protocols, "protocols")) {
    library->protocols.push_back(read_protocol(yaml, yaml.text(key, "protocols"), value));
  }
  if (library->protocols.empty()) yaml.fail_at(protocols, "protocols: expected at least one");
  // What the algorithms named can not do takes a ring, a chain or a direct exchange, which take a ring's costs.
  if (std::none_of(library->protocols.begin(), library->protocols.end(), [](const CollectiveProtocol& p) {
        return p.costs[static_cast<std::size_t>(CollectiveAlgorithm::ring)].has_value();
      }))
    yaml.fail_at(protocols, "protocols: found costs of 'ring' in none, expected them in at least one");
  read_machine(yaml, device, *library);
  return library;
}

}  // namespace unity
