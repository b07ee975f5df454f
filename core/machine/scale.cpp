#include "core/machine/scale.h"

#include <algorithm>
#include <charconv>

#include "core/base/longest_time.h"
#include "core/base/settings.h"
#include "core/base/text.h"
#include "core/machine/collectives.h"
#include "core/machine/profile.h"

namespace unity {
namespace {

using Kind = Scale::Kind;
using Property = Scale::Property;

struct PropertyName {
  Kind kind;
  Property property;
  const char* name;
};
constexpr PropertyName kProperties[] = {{Kind::link, Property::rate, "bandwidth"},
                                        {Kind::link, Property::latency, "latency"},
                                        {Kind::device, Property::compute, "compute"},
                                        {Kind::device, Property::memory_bandwidth, "memory-bandwidth"},
                                        {Kind::device, Property::launch, "launch"}};
constexpr const char* kKinds[] = {"link", "device", "task"};

double parse_factor(std::string_view text, std::string_view whole) {
  double factor = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || rest != text.data() + text.size() || !(factor >= 0 && factor <= 1e12))
    throw_input_error("--scale {}: factor: found '{}', expected a number of at least 0 and at most 1e12", whole, text);
  return factor;
}

void require_known(const Scale& scale, std::vector<std::string> known) {
  if (scale.name.empty() || std::find(known.begin(), known.end(), scale.name) != known.end()) return;
  throw_input_error("--scale {}: {}: found '{}', which the machine does not have{}", scale.text(),
                    kKinds[static_cast<std::size_t>(scale.kind)], scale.name, suggestion(scale.name, known));
}

void scale_links(const Scale& scale, Topology& topology) {
  require_known(scale, link_kinds(topology));
  for (const DeviceSpec& spec : topology.specs)
    if (spec.profile && spec.profile->collectives && spec.profile->collectives->of(topology))
      throw_input_error(
          "--scale {}: the times of the collectives are measured, and do not say what they would be with other links",
          scale.text());
  std::array<bool, kHopClasses> classes{};
  for (Link& link : topology.links) {
    if (!scale.name.empty() && to_string(link.kind) != scale.name) continue;
    classes[static_cast<std::size_t>(class_of(link.kind))] = true;
    if (scale.property == Property::rate)
      link.bandwidth.rate *= scale.factor;
    else
      link.latency = scaled(link.latency, scale.factor);
  }
  if (scale.property != Property::latency || !topology.collectives) return;
  auto library = std::make_shared<CollectiveLibrary>(*topology.collectives);
  for (CollectiveProtocol& protocol : library->protocols) {
    if (classes[static_cast<std::size_t>(HopClass::net)])
      protocol.network_overhead = scaled(protocol.network_overhead, scale.factor);
    for (auto& costs : protocol.costs)
      for (std::size_t c = 0; costs && c < kHopClasses; ++c)
        if (classes[c]) costs->hops[c] = scaled(costs->hops[c], scale.factor);
  }
  topology.collectives = std::move(library);
}

// Measured times, as those of a device that is so many times faster in all.
DeviceProfile faster(DeviceProfile profile, double factor) {
  for (auto& [threads, section] : profile.sections) {
    section.peak *= factor;
    section.elementwise_peak *= factor;
    section.memory_bandwidth *= factor;
    for (auto& [what, curve] : section.curves)
      for (ProfilePoint& point : curve) point.warm /= factor, point.cold /= factor;
    for (auto& [what, entry] : section.tasks) {
      entry.warm /= factor, entry.cold /= factor;
      entry.low /= factor, entry.high /= factor;
    }
  }
  return profile;
}

void scale_device(const Scale& scale, DeviceSpec& spec) {
  bool all = scale.property == Property::rate;
  if (spec.profile && !all)
    throw_input_error(
        "--scale {}: the times of {} are measured, and do not say what they would be with other rates; expected "
        "device=FACTOR or task:OPERATOR=FACTOR",
        scale.text(), spec.name);
  if (spec.profile) spec.profile = std::make_shared<DeviceProfile>(faster(*spec.profile, scale.factor));
  if (all || scale.property == Property::compute) {
    for (auto& [dtype, peak] : spec.peak) peak.rate *= scale.factor;
    spec.elementwise_peak.rate *= scale.factor;
  }
  if (all || scale.property == Property::memory_bandwidth) spec.memory_bandwidth.rate *= scale.factor;
  if (scale.property == Property::launch) spec.launch_overhead = scaled(spec.launch_overhead, scale.factor);
}

}  // namespace

std::string Scale::text() const {
  std::string result = kKinds[static_cast<std::size_t>(kind)];
  if (!name.empty()) result += ":" + name;
  if (property != Property::rate)
    for (const PropertyName& p : kProperties)
      if (p.kind == kind && p.property == property) result += fmt::format(".{}", p.name);
  return fmt::format("{}={}", result, number_text(factor));
}

Scale parse_scale(std::string_view text) {
  std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos)
    throw_input_error("--scale: found '{}', expected KIND[:NAME][.PROPERTY]=FACTOR, as in link:infiniband=2", text);
  std::string_view key = text.substr(0, equals);
  Scale scale;
  scale.factor = parse_factor(text.substr(equals + 1), text);
  std::size_t kind_end = std::min(key.find_first_of(":."), key.size());
  std::string kind(key.substr(0, kind_end));
  auto found = std::find(std::begin(kKinds), std::end(kKinds), kind);
  if (found == std::end(kKinds))
    throw_input_error("--scale {}: found '{}'{}", text, kind, suggestion(kind, {std::begin(kKinds), std::end(kKinds)}));
  scale.kind = static_cast<Kind>(found - std::begin(kKinds));
  std::string_view rest = key.substr(kind_end);
  std::string property;
  if (rest.starts_with(':')) {
    // What follows the last dot is a property; operators have none.
    scale.name = rest.substr(1);
    std::size_t dot = scale.name.rfind('.');
    if (dot != std::string::npos && scale.kind != Kind::task) {
      property = scale.name.substr(dot + 1);
      scale.name.resize(dot);
    }
    if (scale.name.empty()) throw_input_error("--scale {}: expected a name after '{}:'", text, kind);
  } else if (rest.starts_with('.')) {
    property = rest.substr(1);
  }
  if (scale.kind == Kind::task && scale.name.empty())
    throw_input_error("--scale {}: expected an operator, as in task:matmul=0.5", text);
  if (!property.empty()) {
    std::vector<std::string> known;
    bool matched = false;
    for (const PropertyName& p : kProperties) {
      if (p.kind != scale.kind) continue;
      known.emplace_back(p.name);
      if (property == p.name) scale.property = p.property, matched = true;
    }
    if (!matched) throw_input_error("--scale {}: found '{}'{}", text, property, suggestion(property, known));
  }
  bool time = scale.kind == Kind::task || scale.property == Property::latency || scale.property == Property::launch;
  if (scale.factor == 0 && !time)
    throw_input_error("--scale {}: factor: found 0, expected more than 0 for a rate", text);
  return scale;
}

void apply_scales(const std::vector<Scale>& scales, Topology& topology) {
  for (const Scale& scale : scales) {
    if (scale.kind == Kind::link) scale_links(scale, topology);
    if (scale.kind != Kind::device) continue;
    require_known(scale, device_specs(topology));
    for (DeviceSpec& spec : topology.specs)
      if (scale.name.empty() || spec.name == scale.name) scale_device(scale, spec);
  }
  topology.finish();
}

std::vector<std::string> link_kinds(const Topology& topology) {
  std::vector<std::string> kinds;
  for (const Link& link : topology.links) {
    std::string kind(to_string(link.kind));
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

std::vector<std::string> device_specs(const Topology& topology) {
  std::vector<std::string> names;
  for (const DeviceSpec& spec : topology.specs)
    if (std::find(names.begin(), names.end(), spec.name) == names.end()) names.push_back(spec.name);
  return names;
}

}  // namespace unity
