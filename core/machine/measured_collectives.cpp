#include "core/machine/measured_collectives.h"

#include <algorithm>

#include "core/base/text.h"

namespace unity {
namespace {

// Of devices that are in one part of each level before `level`.
std::string shape_from(const Topology& topology, std::size_t level, std::span<const DeviceId> group) {
  auto together = [&](std::size_t l) {
    return std::all_of(group.begin(), group.end(),
                       [&](DeviceId d) { return topology.part(l, d) == topology.part(l, group[0]); });
  };
  while (level < topology.levels.size() && together(level)) ++level;
  if (level == topology.levels.size()) return group.size() > 1 ? fmt::format("{} device", group.size()) : "1";
  std::map<int, std::vector<DeviceId>> parts;
  for (DeviceId d : group) parts[topology.part(level, d)].push_back(d);
  std::map<std::string, int> shapes;
  for (const auto& [part, devices] : parts) ++shapes[shape_from(topology, level + 1, devices)];
  std::string text = fmt::format("{} {}", parts.size(), topology.levels[level].name);
  if (shapes.size() == 1) return shapes.begin()->first == "1" ? text : text + " x " + shapes.begin()->first;
  std::vector<std::string> texts;
  for (const auto& [shape, count] : shapes) texts.push_back(fmt::format("{}: {}", count, shape));
  return fmt::format("{} ({})", text, join(texts));
}

std::vector<std::string> level_names(const Topology& topology) {
  std::vector<std::string> names;
  for (const Level& level : topology.levels) names.push_back(level.name);
  return names;
}

}  // namespace

bool MeasuredCollectives::has(const std::string& name, double bytes) const {
  const std::vector<ProfilePoint>* points = find(name);
  return points && std::any_of(points->begin(), points->end(),
                               [&](const ProfilePoint& p) { return p.amount <= 2 * bytes && bytes <= 2 * p.amount; });
}

const std::vector<ProfilePoint>* MeasuredCollectives::find(const std::string& name) const {
  auto found = times.find(name);
  return found == times.end() || found->second.empty() ? nullptr : &found->second;
}

void MeasuredCollectives::put(const std::string& name, const ProfilePoint& point) {
  std::vector<ProfilePoint>& points = times[name];
  auto at = std::lower_bound(points.begin(), points.end(), point.amount,
                             [](const ProfilePoint& p, double amount) { return p.amount < amount; });
  if (at != points.end() && at->amount == point.amount)
    *at = point;
  else
    points.insert(at, point);
}

bool MeasuredCollectives::of(const Topology& machine) const {
  return topology == machine.name && levels == level_names(machine);
}

MeasuredCollectives collectives_of(const Topology& topology, std::string comm, int processes) {
  return {std::move(comm), processes, topology.name, level_names(topology), {}, {}};
}

std::string carrier(std::string_view backend, int processes) {
  if (backend == "cuda") return "nccl";
  return processes > 1 ? "mpi" : "threads";
}

std::string group_shape(const Topology& topology, std::span<const DeviceId> group) {
  return shape_from(topology, 0, group);
}

}  // namespace unity
