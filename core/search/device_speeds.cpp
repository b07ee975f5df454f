#include "core/search/device_speeds.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace unity {

std::vector<double> device_speeds(const Pcg& pcg, const CostModel& cost) {
  const Topology& topology = cost.topology();
  std::vector<double> speeds(topology.device_count(), 1);
  bool alike = std::all_of(topology.devices.begin(), topology.devices.end(),
                           [&](const Device& d) { return d.spec == topology.devices[0].spec; });
  if (alike) return speeds;
  std::vector<double> seconds(topology.specs.size(), 0);
  double longest = 0;
  for (std::size_t d = 0; d < speeds.size(); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    double& time = seconds[topology.device(device).spec];
    bool known = time > 0;
    for (std::size_t i = 0; !known && i < pcg.size(); ++i) {
      const Node& n = pcg.nodes()[i];
      if (!n.is_compute()) continue;
      Sharding sharding = node_sharding(pcg, NodeId(static_cast<std::int64_t>(i)));
      double tasks = sharding.tasks() * micro_count(sharding), bytes = 0;
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (!n.table->inputs[k].shape_only) bytes += static_cast<double>(pcg.shape(n.inputs[k]).shape().bytes());
      for (const ParallelShape& s : n.outputs) bytes += static_cast<double>(s.shape().bytes());
      Task task;
      task.flops = 3 * flops(*n.table, full_ranges(*n.table)) / tasks;  // forward once, backward about twice
      task.bytes = 3 * bytes / tasks;
      time += cost.task_time(task, nullptr, device).seconds();
    }
    speeds[d] = time;
    longest = std::max(longest, time);
  }
  for (double& speed : speeds) speed = speed > 0 ? longest / speed : 1;
  return speeds;
}

int common_node_size(const Topology& topology) {
  auto devices = static_cast<int>(topology.device_count());
  auto node =
      std::find_if(topology.levels.begin(), topology.levels.end(), [](const Level& l) { return l.name == "node"; });
  if (node == topology.levels.end()) return devices;
  auto level = static_cast<std::size_t>(node - topology.levels.begin());
  std::map<int, int> sizes;
  for (int d = 0; d < devices; ++d) ++sizes[topology.part(level, DeviceId(d))];
  int common = 0;
  for (auto [part, size] : sizes) common = std::gcd(common, size);
  return common;
}

std::vector<double> stage_speeds(const std::vector<double>& devices, int stages, int groups, int width) {
  std::vector<double> speeds;
  for (int s = 0; s < stages; ++s) {
    auto first = devices.begin() + s % groups * width;
    speeds.push_back(*std::min_element(first, first + width));
  }
  double slowest = *std::min_element(speeds.begin(), speeds.end());
  for (double& speed : speeds) speed /= slowest;
  return speeds;
}

}  // namespace unity
