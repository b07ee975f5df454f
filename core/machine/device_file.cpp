#include <algorithm>
#include <cstdlib>

#include "core/base/path_inside.h"
#include "core/machine/files.h"
#include "core/machine/profile.h"
#include "core/machine/yaml_read.h"

namespace unity {
namespace {

// Work has the units of a rate without its "per second".
double amount_of_flops(const YamlReader& yaml, const YAML::Node& node) {
  Result<FlopsPerSecond> rate = parse_compute_rate(yaml.text(node, "matmul_efficiency") + "S");
  if (!rate.ok())
    yaml.fail_at(node, fmt::format("matmul_efficiency: found '{}', expected an amount of work such as '10 MFLOP'",
                                   node.Scalar()));
  return rate->rate;
}

double amount_of_bytes(const YamlReader& yaml, const YAML::Node& node) {
  return static_cast<double>(yaml.quantity(node, "memory_efficiency", parse_bytes).count);
}

std::vector<EfficiencyPoint> read_curve(const YamlReader& yaml, const std::string& key,
                                        double (*amount_of)(const YamlReader&, const YAML::Node&)) {
  std::vector<EfficiencyPoint> curve;
  YAML::Node node = yaml.root()[key];
  if (!node) return curve;
  for (const auto& [amount, fraction] : yaml.entries(node, key)) {
    EfficiencyPoint point{amount_of(yaml, amount), yaml.positive_number(fraction, key)};
    if (point.fraction > 1)
      yaml.fail_at(fraction, fmt::format("{}: found {}, expected a fraction of at most 1", key, point.fraction));
    if (!(point.amount > 0)) yaml.fail_at(amount, fmt::format("{}: expected an amount above 0", key));
    if (!curve.empty() && point.amount <= curve.back().amount)
      yaml.fail_at(amount, fmt::format("{}: expected amounts in ascending order", key));
    curve.push_back(point);
  }
  return curve;
}

}  // namespace

std::filesystem::path topology_folder() {
  if (const char* given = std::getenv("UNITY_TOPOLOGIES"); given && *given) return given;
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    std::filesystem::path installed = self.parent_path().parent_path() / "share" / "unity" / "topologies";
    if (std::filesystem::is_directory(installed, error)) return installed;
  }
  return UNITY_SOURCE_TOPOLOGIES;
}

std::vector<std::string> yaml_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

DeviceSpec load_device_file(const std::string& file) {
  YamlReader yaml(file, "unity-device", 1);
  const YAML::Node& root = yaml.root();
  yaml.check_keys(root, {"format", "version", "name", "kind", "peak", "elementwise_peak", "memory_bandwidth",
                         "host_bandwidth", "memory", "launch_overhead", "handover", "interference", "matmul_efficiency",
                         "memory_efficiency", "profile"});
  DeviceSpec spec;
  spec.name = yaml.text(yaml.require(root, "name"), "name");
  YAML::Node kind = yaml.require(root, "kind");
  spec.kind = yaml.text(kind, "kind");
  if (spec.kind != "gpu" && spec.kind != "cpu")
    yaml.fail_at(kind, fmt::format("kind: found '{}', expected gpu or cpu", spec.kind));
  YAML::Node peak = yaml.require(root, "peak");
  for (const auto& [key, value] : yaml.entries(peak, "peak")) {
    Result<DType> dtype = parse_dtype(yaml.text(key, "peak"));
    if (!dtype.ok()) yaml.fail_at(key, "peak: " + dtype.error().message);
    FlopsPerSecond rate = yaml.quantity(value, "peak", parse_compute_rate);
    if (!(rate.rate > 0)) yaml.fail_at(value, fmt::format("peak: found '{}', expected more than 0", value.Scalar()));
    spec.peak[*dtype] = rate;
  }
  if (!spec.peak.contains(DType::f32)) yaml.fail_at(peak, "peak: key 'f32' is missing");
  if (YAML::Node elementwise = root["elementwise_peak"]) {
    spec.elementwise_peak = yaml.quantity(elementwise, "elementwise_peak", parse_compute_rate);
    if (!(spec.elementwise_peak.rate > 0)) yaml.fail_at(elementwise, "elementwise_peak: expected more than 0");
  }
  auto bandwidth = yaml.require(root, "memory_bandwidth");
  spec.memory_bandwidth = yaml.quantity(bandwidth, "memory_bandwidth", parse_bandwidth);
  if (!(spec.memory_bandwidth.rate > 0)) yaml.fail_at(bandwidth, "memory_bandwidth: expected more than 0");
  if (YAML::Node host = root["host_bandwidth"]) {
    spec.host_bandwidth = yaml.quantity(host, "host_bandwidth", parse_bandwidth);
    if (!(spec.host_bandwidth.rate > 0)) yaml.fail_at(host, "host_bandwidth: expected more than 0");
  }
  auto memory = yaml.require(root, "memory");
  spec.memory = yaml.quantity(memory, "memory", parse_bytes);
  if (spec.memory.count <= 0) yaml.fail_at(memory, "memory: expected more than 0");
  spec.launch_overhead = yaml.short_time(yaml.require(root, "launch_overhead"), "launch_overhead");
  if (auto handover = root["handover"]) spec.handover = yaml.short_time(handover, "handover");
  if (auto interference = root["interference"]) {
    spec.interference = yaml.positive_number(interference, "interference");
    if (spec.interference >= 1)
      yaml.fail_at(interference, fmt::format("interference: found {}, expected less than 1", spec.interference));
  }
  spec.matmul_efficiency = read_curve(yaml, "matmul_efficiency", amount_of_flops);
  spec.memory_efficiency = read_curve(yaml, "memory_efficiency", amount_of_bytes);
  if (YAML::Node profile = root["profile"]) {
    auto path = path_inside(std::filesystem::path(file).parent_path(), yaml.text(profile, "profile"));
    if (!path.ok()) yaml.fail_at(profile, "profile: " + path.error().message);
    if (!std::filesystem::exists(*path))
      yaml.fail_at(profile, fmt::format("profile: file {} does not exist", path->string()));
    spec.profile = std::make_shared<const DeviceProfile>(load_profile(path->string()));
  }
  return spec;
}

std::vector<std::string> device_names() { return yaml_names(topology_folder() / "devices"); }

DeviceSpec load_device(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".yaml")) return load_device_file(name);
  std::filesystem::path path = topology_folder() / "devices" / (name + ".yaml");
  if (!std::filesystem::exists(path))
    throw_input_error("unknown device '{}'{}", name, suggestion(name, device_names()));
  return load_device_file(path.string());
}

}  // namespace unity
