#include "cli/show_topology.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "core/base/text.h"
#include "core/machine/bisection.h"

namespace unity::cli {
namespace {

using nlohmann::ordered_json;

// Links of one kind and rate are one line; a full-duplex link is two directions.
std::vector<std::pair<Link, int>> kinds_of_links(const Topology& t) {
  std::vector<std::pair<Link, int>> kinds;
  for (const Link& link : t.links) {
    auto same = [&](const auto& k) {
      return k.first.kind == link.kind && k.first.bandwidth == link.bandwidth && k.first.latency == link.latency;
    };
    auto found = std::find_if(kinds.begin(), kinds.end(), same);
    if (found == kinds.end())
      kinds.emplace_back(link, 1);
    else
      ++found->second;
  }
  return kinds;
}

// The last part of a name without its number: "nic" for "node3.nic12".
std::string stem(const std::string& name) {
  std::string last = name.substr(name.rfind('.') + 1);
  return last.substr(0, last.find_last_not_of("0123456789") + 1);
}

std::vector<std::pair<std::string, int>> switches_of(const Topology& t) {
  std::vector<std::pair<std::string, int>> switches;
  for (const Vertex& v : t.vertices) {
    // Devices that --devices leaves out are switches, too, but not of this machine's making.
    if (v.device.valid() || (!t.levels.empty() && stem(v.name) == t.levels.back().name)) continue;
    auto found = std::find_if(switches.begin(), switches.end(), [&](const auto& s) { return s.first == stem(v.name); });
    if (found == switches.end())
      switches.emplace_back(stem(v.name), 1);
    else
      ++found->second;
  }
  return switches;
}

struct Example {
  DeviceId to;
  std::vector<std::string> passes;  // vertices between the two devices
  std::size_t hops = 0;
};

// From the first device, to the first at each distance: level of the hierarchy and number of links.
std::vector<Example> examples(const Topology& t) {
  std::vector<Example> found;
  std::set<std::pair<int, std::size_t>> seen;
  for (std::size_t d = 1; d < t.device_count(); ++d) {
    Example e{DeviceId(static_cast<std::int64_t>(d)), {}, 0};
    for (LinkId l : t.route(DeviceId(0), e.to)) {
      const Link& link = t.links[l.index()];
      if (link.from == link.to) continue;
      ++e.hops;
      if (link.to != t.device(e.to).vertex) e.passes.push_back(t.vertices[link.to.index()].name);
    }
    if (seen.emplace(-t.distance_level(DeviceId(0), e.to), e.hops).second) found.push_back(std::move(e));
  }
  return found;
}

void print_json(const Topology& t) {
  ordered_json levels = ordered_json::array(), devices = ordered_json::array(), switches = ordered_json::array(),
               links = ordered_json::array(), routes = ordered_json::array();
  for (const Level& level : t.levels) levels.push_back({{"name", level.name}, {"count", level.count}});
  for (const Device& d : t.devices) devices.push_back({{"name", d.name}, {"device", t.specs[d.spec].name}});
  for (const auto& [name, count] : switches_of(t)) switches.push_back({{"name", name}, {"count", count}});
  for (const auto& [link, count] : kinds_of_links(t))
    links.push_back({{"kind", to_string(link.kind)},
                     {"directions", count},
                     {"bytes_per_second", link.bandwidth.rate},
                     {"latency_seconds", link.latency.seconds()}});
  for (const Example& e : examples(t))
    routes.push_back({{"from", t.devices[0].name},
                      {"to", t.device(e.to).name},
                      {"hops", e.hops},
                      {"via", e.passes},
                      {"bytes_per_second", t.bandwidth(DeviceId(0), e.to).rate},
                      {"latency_seconds", t.latency(DeviceId(0), e.to).seconds()}});
  ordered_json result = {{"topology", t.name},
                         {"nodes", t.nodes},
                         {"hash", fmt::format("{:016x}", t.hash())},
                         {"levels", levels},
                         {"devices", devices},
                         {"switches", switches},
                         {"links", links},
                         {"routing", t.routing == Routing::ecmp ? "ecmp" : "shortest"},
                         {"custom_routes", t.custom_routes.size()},
                         {"bisection_bytes_per_second", bisection_bandwidth(t).rate},
                         {"routes", routes}};
  fmt::print("{}\n", result.dump(2));
}

}  // namespace

void show_topology(const Topology& t, bool json) {
  if (json) return print_json(t);
  std::vector<std::string> switches;
  for (const auto& [name, count] : switches_of(t)) switches.push_back(fmt::format("{} {}", count, name));
  fmt::print("{}: {} devices ({})\n", t.name, t.device_count(), in_words(t.levels));
  if (!switches.empty()) fmt::print("  switches   {}\n", join(switches));
  if (t.device_count() > 1) {
    std::size_t rest = t.device_count() - t.device_count() / 2;
    BytesPerSecond bisection = bisection_bandwidth(t);
    fmt::print("  bisection  {} from the first half of the devices to the rest, {} for each of these\n",
               to_string(bisection), to_string(BytesPerSecond{bisection.rate / static_cast<double>(rest)}));
  }
  auto forwarding = std::count_if(t.devices.begin(), t.devices.end(),
                                  [&](const Device& d) { return t.vertices[d.vertex.index()].forwards; });
  fmt::print("  routing    {}{}{}\n\n", t.routing == Routing::ecmp ? "equal-cost multipath" : "shortest",
             t.custom_routes.empty() ? "" : fmt::format(", {} custom routes", t.custom_routes.size()),
             forwarding == 0 ? "" : fmt::format(", {} devices forward", forwarding));
  Table devices({"device", "count", "f32 peak", "memory", "memory bandwidth"});
  for (std::size_t s = 0; s < t.specs.size(); ++s) {
    auto count = std::count_if(t.devices.begin(), t.devices.end(), [&](const Device& d) { return d.spec == s; });
    const DeviceSpec& spec = t.specs[s];
    devices.add({spec.name, std::to_string(count), to_string(spec.peak.at(DType::f32)), to_string(spec.memory),
                 to_string(spec.memory_bandwidth)});
  }
  devices.print();
  fmt::print("\n");
  Table links({"link", "directions", "bandwidth", "latency"});
  for (const auto& [link, count] : kinds_of_links(t))
    links.add(
        {std::string(to_string(link.kind)), std::to_string(count), to_string(link.bandwidth), to_string(link.latency)});
  links.print();
  if (t.device_count() < 2) return;
  fmt::print("\n");
  Table routes({"route", "hops", "bandwidth", "latency", "by"});
  routes.left(4);
  for (const Example& e : examples(t))
    routes.add({fmt::format("{} to {}", t.devices[0].name, t.device(e.to).name), std::to_string(e.hops),
                to_string(t.bandwidth(DeviceId(0), e.to)), to_string(t.latency(DeviceId(0), e.to)), join(e.passes)});
  routes.print();
}

}  // namespace unity::cli
