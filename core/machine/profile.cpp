#include "core/machine/profile.h"

#include <algorithm>
#include <cmath>

#include "core/base/checksum.h"
#include "core/base/longest_time.h"
#include "core/base/text.h"
#include "core/machine/yaml_read.h"

namespace unity {
namespace {

double number_from(const YamlReader& yaml, const YAML::Node& node, std::string_view what, bool negative = false) {
  double value = 0;
  if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !(negative || value >= 0) ||
      !std::isfinite(value))
    yaml.fail_at(node,
                 fmt::format("{}: found '{}', expected a number{}", what,
                             node.IsScalar() ? node.Scalar() : "a list or map", negative ? "" : " of at least 0"));
  return value;
}

// Seconds that each task or step takes more, as many as a link's latency may be; 0 where there are none.
double overhead_from(const YamlReader& yaml, const YAML::Node& map, const std::string& key, bool negative = false) {
  YAML::Node node = map[key];
  if (!node) return 0;
  double seconds = number_from(yaml, node, key, negative), most = kLongestLatency.seconds();
  if (std::abs(seconds) > most)
    yaml.fail_at(
        node, fmt::format("{}: found '{}', expected {} to {} seconds", key, node.Scalar(), negative ? -most : 0, most));
  return seconds;
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

// seconds, or [warm, cold], or [warm, cold, low, high].
ProfilePoint read_point(const YamlReader& yaml, const YAML::Node& amount, const YAML::Node& node,
                        const std::string& what) {
  ProfilePoint point{yaml.positive_number(amount, what)};
  if (!node.IsSequence()) {
    point.warm = point.cold = yaml.positive_number(node, what);
    return point;
  }
  std::vector<YAML::Node> items = yaml.items(node, what);
  if (items.size() != 2 && items.size() != 4)
    yaml.fail_at(node, fmt::format("{}: found {} numbers, expected [warm, cold] or [warm, cold, low, high]", what,
                                   items.size()));
  std::vector<double> numbers;
  for (const YAML::Node& item : items) numbers.push_back(yaml.positive_number(item, what));
  point.warm = numbers[0], point.cold = numbers[1];
  if (items.size() == 2) return point;
  point.low = numbers[2], point.high = numbers[3];
  if (point.low > point.high)
    yaml.fail_at(items[2], fmt::format("{}: found quartiles {} and {}, expected the lower one first", what, point.low,
                                       point.high));
  return point;
}

std::vector<ProfilePoint> read_curve(const YamlReader& yaml, const YAML::Node& points, const std::string& what) {
  std::vector<ProfilePoint> curve;
  for (const auto& [amount, seconds] : yaml.entries(points, what))
    add_point(yaml, amount, what, curve, read_point(yaml, amount, seconds, what));
  return curve;
}

MeasuredCollectives read_collectives(const YamlReader& yaml, const YAML::Node& node, const std::string& backend) {
  yaml.check_keys(node, {"comm", "processes", "topology", "levels", "times"});
  MeasuredCollectives all;
  YAML::Node comm = yaml.require(node, "comm");
  all.comm = yaml.text(comm, "comm");
  all.processes = yaml.positive_int(yaml.require(node, "processes"), "processes");
  if (all.comm != carrier(backend, all.processes))
    yaml.fail_at(comm, fmt::format("comm: found '{}', expected '{}' of backend {} in {} {}", all.comm,
                                   carrier(backend, all.processes), backend, all.processes,
                                   all.processes == 1 ? "process" : "processes"));
  YAML::Node topology = yaml.require(node, "topology");
  all.topology = yaml.text(topology, "topology");
  YAML::Mark mark = topology.Mark();
  all.place = fmt::format("{}:{}:{}", yaml.file(), mark.line + 1, mark.column + 1);
  for (const YAML::Node& level : yaml.items(yaml.require(node, "levels"), "levels"))
    all.levels.push_back(yaml.text(level, "levels"));
  for (const auto& [key, points] : yaml.entries(yaml.require(node, "times"), "times")) {
    std::string name = yaml.text(key, "times");
    all.times[name] = read_curve(yaml, points, name);
  }
  return all;
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
  yaml.check_keys(node, {"threads", "task_overhead", "handover", "step_overhead", "peak", "elementwise_peak",
                         "memory_bandwidth", "efficiency", "curves", "tasks"});
  ProfileSection section;
  section.threads = yaml.positive_int(yaml.require(node, "threads"), "threads");
  section.task_overhead = overhead_from(yaml, node, "task_overhead", true);
  section.handover = overhead_from(yaml, node, "handover");
  section.step_overhead = overhead_from(yaml, node, "step_overhead");
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
      section.curves[name] = read_curve(yaml, points, "curve " + name);
    }
  if (YAML::Node all = node["tasks"])
    for (const auto& [key, entry] : yaml.entries(all, "tasks")) {
      std::string name = yaml.text(key, "tasks");
      section.tasks[name] = read_entry(yaml, entry, name);
    }
  return section;
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? "''" : std::string(1, c == '\n' ? ' ' : c);  // as YAML reads a line's end
  return result + "'";
}

// A plain key may have 1024 characters at most.
std::string key_of(const std::string& name, const std::string& indent) {
  return name.size() < 1000 ? quoted(name) : "? " + quoted(name) + "\n" + indent;
}

std::string curve_text(const std::vector<ProfilePoint>& curve) {
  std::vector<std::string> points;
  for (const ProfilePoint& p : curve) {
    // Compared as they are written, or what is read back would be written in another way.
    std::string warm = fmt::format("{:.4g}", p.warm), cold = fmt::format("{:.4g}", p.cold);
    if (p.high > 0)
      points.push_back(fmt::format("{:.0f}: [{}, {}, {:.4g}, {:.4g}]", p.amount, warm, cold, p.low, p.high));
    else
      points.push_back(warm == cold ? fmt::format("{:.0f}: {}", p.amount, warm)
                                    : fmt::format("{:.0f}: [{}, {}]", p.amount, warm, cold));
  }
  return "{" + join(points) + "}";
}

std::string collectives_text(const MeasuredCollectives& all) {
  std::vector<std::string> levels;
  for (const std::string& level : all.levels) levels.push_back(quoted(level));
  std::string out = fmt::format("collectives:\n  comm: {}\n  processes: {}\n  topology: {}\n  levels: [{}]\n",
                                quoted(all.comm), all.processes, quoted(all.topology), join(levels));
  out += all.times.empty() ? "  times: {}\n" : "  times:\n";
  for (const auto& [name, curve] : all.times)
    out += fmt::format("    {}: {}\n", key_of(name, "    "), curve_text(curve));
  return out;
}

// Of the first version: without collectives, and points without quartiles.
constexpr int kVersion = 2;

// With a line for the checksum, or "" for what it is the checksum of: the content, however it is laid out in a file.
std::string to_yaml(const DeviceProfile& profile, const std::string& checksum, int version = kVersion) {
  std::string out =
      fmt::format("format: unity-profile\nversion: {}\ndevice: {}\ndate: {}\nbackend: {}\nprecision: {}\n", version,
                  quoted(profile.device), profile.date, profile.backend, to_string(profile.precision));
  if (profile.cache.count > 0) out += fmt::format("cache: {} B\n", profile.cache.count);
  out += checksum;
  if (profile.collectives) out += collectives_text(*profile.collectives);
  out += profile.sections.empty() ? "sections: []\n" : "sections:\n";
  for (const auto& [threads, s] : profile.sections) {
    out += fmt::format("  - threads: {}\n", threads);
    auto number = [&](const char* key, double value) {
      if (value != 0) out += fmt::format("    {}: {:.4g}\n", key, value);
    };
    number("task_overhead", s.task_overhead);
    number("handover", s.handover);
    number("step_overhead", s.step_overhead);
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
    for (const auto& [name, curve] : s.curves) out += fmt::format("      {}: {}\n", name, curve_text(curve));
    if (!s.tasks.empty()) out += "    tasks:\n";
    for (const auto& [name, e] : s.tasks)
      out += fmt::format("      {}: {{warm: {:.4g}, cold: {:.4g}, low: {:.4g}, high: {:.4g}, samples: {}}}\n",
                         key_of(name, "      "), e.warm, e.cold, e.low, e.high, e.samples);
  }
  return out;
}

}  // namespace

const ProfileSection* DeviceProfile::section(int threads) const {
  auto found = sections.find(section_key(threads));
  return found == sections.end() ? nullptr : &found->second;
}

const ProfileSection* section_of(const Topology& topology, DeviceId device) {
  const DeviceSpec& spec = topology.spec(device);
  return spec.profile ? spec.profile->section(topology.threads(device)) : nullptr;
}

std::size_t DeviceProfile::entries() const {
  std::size_t count = 0;
  for (const auto& [threads, section] : sections) count += section.tasks.size();
  return count;
}

DeviceProfile load_profile(const std::string& file) {
  YamlReader yaml(file, "unity-profile", 1, kVersion);
  const YAML::Node& root = yaml.root();
  yaml.check_keys(root, {"format", "version", "device", "date", "backend", "precision", "cache", "checksum",
                         "collectives", "sections"});
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
  if (YAML::Node node = root["collectives"]) {
    if (yaml.version() < 2) yaml.fail_at(node, "collectives: found version 1 of the file, expected 2");
    profile.collectives = read_collectives(yaml, node, profile.backend);
  }
  for (const YAML::Node& node : yaml.items(yaml.require(root, "sections"), "sections")) {
    ProfileSection section = read_section(yaml, node);
    int threads = section.threads;
    if (!profile.sections.emplace(threads, std::move(section)).second)
      yaml.fail_at(node, fmt::format("sections: {} threads are given twice", threads));
  }
  if (YAML::Node node = root["checksum"]) {
    std::string expected = yaml.text(node, "checksum"), found = checksum_of(to_yaml(profile, "", yaml.version()));
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

std::string profile_in_words(const Topology& topology) {
  std::vector<std::string> all;
  for (const DeviceSpec& spec : topology.specs) {
    if (!spec.profile) continue;
    const DeviceProfile& p = *spec.profile;
    std::string words = fmt::format("{}, backend {} in {}, {}", p.device, p.backend, to_string(p.precision), p.date);
    if (std::find(all.begin(), all.end(), words) == all.end()) all.push_back(std::move(words));
  }
  return join(all, "; ");
}

void use_profile(Topology& topology, const DeviceProfile& profile) {
  if (const auto& c = profile.collectives; c && !c->of(topology))
    throw_input_error("{}: the collectives were measured on topology '{}' with levels {}, expected '{}' with levels {}",
                      c->place.empty() ? "profile" : c->place, c->topology, join(c->levels), topology.name,
                      join(collectives_of(topology, "", 1).levels));
  auto shared = std::make_shared<const DeviceProfile>(profile);
  for (DeviceSpec& spec : topology.specs) spec.profile = shared;
}

}  // namespace unity
