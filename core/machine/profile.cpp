#include "core/machine/profile.h"

#include <cmath>

#include "core/base/checksum.h"
#include "core/machine/yaml_read.h"

namespace unity {
namespace {

double interpolate(double x0, double y0, double x1, double y1, double x) {
  double t = std::log(x / x0) / std::log(x1 / x0);
  return std::exp(std::log(y0) * (1 - t) + std::log(y1) * t);
}

double number_from(const YamlReader& yaml, const YAML::Node& node, std::string_view what) {
  double value = 0;
  if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !(value >= 0) || !std::isfinite(value))
    yaml.fail_at(node, fmt::format("{}: found '{}', expected a number of at least 0", what,
                                   node.IsScalar() ? node.Scalar() : "a list or map"));
  return value;
}

double optional_number(const YamlReader& yaml, const YAML::Node& map, const std::string& key) {
  YAML::Node node = map[key];
  return node ? number_from(yaml, node, key) : 0;
}

// Amounts ascend.
template <class Point>
void add_point(const YamlReader& yaml, const YAML::Node& at, const std::string& what, std::vector<Point>& curve,
               Point point) {
  if (!curve.empty() && point.amount <= curve.back().amount)
    yaml.fail_at(at, fmt::format("{}: found amount {}, expected amounts in ascending order", what, at.Scalar()));
  curve.push_back(point);
}

// seconds, or [warm, cold].
TaskSeconds read_seconds(const YamlReader& yaml, const YAML::Node& node, const std::string& what) {
  if (!node.IsSequence()) {
    double seconds = yaml.positive_number(node, what);
    return {seconds, seconds};
  }
  std::vector<YAML::Node> both = yaml.items(node, what);
  if (both.size() != 2)
    yaml.fail_at(node, fmt::format("{}: found {} numbers, expected [warm, cold]", what, both.size()));
  return {yaml.positive_number(both[0], what), yaml.positive_number(both[1], what)};
}

ProfileEntry read_entry(const YamlReader& yaml, const YAML::Node& node, const std::string& what) {
  yaml.check_keys(node, {"warm", "cold", "low", "high", "samples"});
  ProfileEntry entry;
  entry.warm = yaml.positive_number(yaml.require(node, "warm"), what + ": warm");
  entry.cold = node["cold"] ? yaml.positive_number(node["cold"], what + ": cold") : entry.warm;
  entry.low = node["low"] ? yaml.positive_number(node["low"], what + ": low") : entry.warm;
  entry.high = node["high"] ? yaml.positive_number(node["high"], what + ": high") : entry.warm;
  entry.samples = node["samples"] ? yaml.positive_int(node["samples"], what + ": samples") : 1;
  return entry;
}

ProfileSection read_section(const YamlReader& yaml, const YAML::Node& node) {
  yaml.check_keys(node, {"threads", "task_overhead", "handover", "peak", "elementwise_peak", "memory_bandwidth",
                         "efficiency", "curves", "tasks"});
  ProfileSection section;
  section.threads = yaml.positive_int(yaml.require(node, "threads"), "threads");
  section.task_overhead = optional_number(yaml, node, "task_overhead");
  section.handover = optional_number(yaml, node, "handover");
  section.peak = optional_number(yaml, node, "peak");
  section.elementwise_peak = optional_number(yaml, node, "elementwise_peak");
  section.memory_bandwidth = optional_number(yaml, node, "memory_bandwidth");
  if (YAML::Node all = node["efficiency"])
    for (const auto& [key, points] : yaml.entries(all, "efficiency")) {
      std::string name = yaml.text(key, "efficiency");
      for (const auto& [amount, fraction] : yaml.entries(points, name)) {
        EfficiencyPoint point{yaml.positive_number(amount, name), yaml.positive_number(fraction, name)};
        if (point.fraction > 1)
          yaml.fail_at(fraction, fmt::format("efficiency of {}: found {}, expected a fraction of at most 1", name,
                                             point.fraction));
        add_point(yaml, amount, "efficiency of " + name, section.efficiency[name], point);
      }
    }
  if (YAML::Node all = node["curves"])
    for (const auto& [key, points] : yaml.entries(all, "curves")) {
      std::string name = yaml.text(key, "curves");
      for (const auto& [amount, seconds] : yaml.entries(points, name)) {
        TaskSeconds s = read_seconds(yaml, seconds, "curve " + name);
        add_point(yaml, amount, "curve " + name, section.curves[name],
                  ProfilePoint{yaml.positive_number(amount, "curve " + name), s.warm, s.cold});
      }
    }
  if (YAML::Node all = node["tasks"])
    for (const auto& [key, entry] : yaml.entries(all, "tasks")) {
      std::string name = yaml.text(key, "tasks");
      if (!section.tasks.emplace(name, read_entry(yaml, entry, name)).second)
        yaml.fail_at(key, fmt::format("task '{}' is given twice", name));
    }
  return section;
}

// With a line for the checksum, or "" for what it is the checksum of: the content, however it is laid out in a file.
std::string to_yaml(const DeviceProfile& profile, const std::string& checksum) {
  auto quoted = [](const std::string& text) {
    std::string result = "'";
    for (char c : text) result += c == '\'' ? "''" : std::string(1, c == '\n' ? ' ' : c);  // as YAML reads a line's end
    return result + "'";
  };
  std::string out = fmt::format("format: unity-profile\nversion: 1\ndevice: {}\ndate: {}\nbackend: {}\nprecision: {}\n",
                                quoted(profile.device), profile.date, profile.backend, to_string(profile.precision));
  if (profile.cache.count > 0) out += fmt::format("cache: {} B\n", profile.cache.count);
  out += checksum;
  out += profile.sections.empty() ? "sections: []\n" : "sections:\n";
  for (const auto& [threads, s] : profile.sections) {
    out += fmt::format("  - threads: {}\n", threads);
    auto number = [&](const char* key, double value) {
      if (value > 0) out += fmt::format("    {}: {:.4g}\n", key, value);
    };
    number("task_overhead", s.task_overhead);
    number("handover", s.handover);
    number("peak", s.peak);
    number("elementwise_peak", s.elementwise_peak);
    number("memory_bandwidth", s.memory_bandwidth);
    if (!s.efficiency.empty()) out += "    efficiency:\n";
    for (const auto& [name, curve] : s.efficiency) {
      std::vector<std::string> points;
      for (const EfficiencyPoint& p : curve) points.push_back(fmt::format("{:.0f}: {:.4g}", p.amount, p.fraction));
      out += fmt::format("      {}: {{{}}}\n", name, join(points));
    }
    if (!s.curves.empty()) out += "    curves:\n";
    for (const auto& [name, curve] : s.curves) {
      std::vector<std::string> points;
      for (const ProfilePoint& p : curve) {
        // Compared as they are written, or what is read back would be written in another way.
        std::string warm = fmt::format("{:.4g}", p.warm), cold = fmt::format("{:.4g}", p.cold);
        points.push_back(warm == cold ? fmt::format("{:.0f}: {}", p.amount, warm)
                                      : fmt::format("{:.0f}: [{}, {}]", p.amount, warm, cold));
      }
      out += fmt::format("      {}: {{{}}}\n", name, join(points));
    }
    if (!s.tasks.empty()) out += "    tasks:\n";
    for (const auto& [name, e] : s.tasks)
      // A plain key may have 1024 characters at most.
      out += fmt::format("      {}: {{warm: {:.4g}, cold: {:.4g}, low: {:.4g}, high: {:.4g}, samples: {}}}\n",
                         name.size() < 1000 ? quoted(name) : "? " + quoted(name) + "\n      ", e.warm, e.cold, e.low,
                         e.high, e.samples);
  }
  return out;
}

}  // namespace

TaskSeconds seconds_at(const std::vector<ProfilePoint>& curve, double amount) {
  if (curve.empty()) return {};
  if (amount <= curve.front().amount) return {curve.front().warm, curve.front().cold};
  const ProfilePoint& last = curve.back();
  if (amount >= last.amount) return {last.warm * amount / last.amount, last.cold * amount / last.amount};
  std::size_t i = 1;
  while (curve[i].amount < amount) ++i;
  const ProfilePoint &a = curve[i - 1], &b = curve[i];
  return {interpolate(a.amount, a.warm, b.amount, b.warm, amount),
          interpolate(a.amount, a.cold, b.amount, b.cold, amount)};
}

const ProfileSection* DeviceProfile::section(int threads) const {
  auto found = sections.find(threads);
  return found == sections.end() ? nullptr : &found->second;
}

std::size_t DeviceProfile::entries() const {
  std::size_t count = 0;
  for (const auto& [threads, section] : sections) count += section.tasks.size();
  return count;
}

DeviceProfile load_profile(const std::string& file) {
  YamlReader yaml(file, "unity-profile", 1);
  const YAML::Node& root = yaml.root();
  yaml.check_keys(root,
                  {"format", "version", "device", "date", "backend", "precision", "cache", "checksum", "sections"});
  DeviceProfile profile;
  profile.device = yaml.text(yaml.require(root, "device"), "device");
  profile.date = yaml.text(yaml.require(root, "date"), "date");
  profile.backend = yaml.text(yaml.require(root, "backend"), "backend");
  YAML::Node precision = yaml.require(root, "precision");
  try {
    profile.precision = parse_precision(yaml.text(precision, "precision"), "precision");
  } catch (const InputError& e) {
    yaml.fail_at(precision, e.what());
  }
  if (YAML::Node cache = root["cache"]) profile.cache = yaml.quantity(cache, "cache", parse_bytes);
  for (const YAML::Node& node : yaml.items(yaml.require(root, "sections"), "sections")) {
    ProfileSection section = read_section(yaml, node);
    int threads = section.threads;
    if (!profile.sections.emplace(threads, std::move(section)).second)
      yaml.fail_at(node, fmt::format("sections: {} threads are given twice", threads));
  }
  if (YAML::Node node = root["checksum"]) {
    std::string expected = yaml.text(node, "checksum"), found = checksum_of(to_yaml(profile, ""));
    if (found != expected)
      yaml.fail_at(node, checksum_differs(found, expected) + " (remove this line where that was meant)");
  }
  return profile;
}

std::string profile_to_yaml(const DeviceProfile& profile) {
  return to_yaml(profile, fmt::format("checksum: {}\n", checksum_of(to_yaml(profile, ""))));
}

void save_profile(const DeviceProfile& profile, const std::string& file) {
  write_file_atomically(file, profile_to_yaml(profile));
}

void use_profile(Topology& topology, const DeviceProfile& profile) {
  auto shared = std::make_shared<const DeviceProfile>(profile);
  for (DeviceSpec& spec : topology.specs) spec.profile = shared;
}

}  // namespace unity
