#include "core/search/work_estimate.h"

#include <algorithm>

namespace unity {

double work_seconds(const Pcg& pcg, const DeviceSpec& device) {
  double seconds = 0;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    if (!node.is_compute() || !node.table) continue;
    double tasks = node_sharding(pcg, NodeId(static_cast<std::int64_t>(i))).tasks();
    double bytes = 0;
    // Each part is read or written by the tasks that hold it.
    auto moved = [&](const ParallelShape& s) { return static_cast<double>(s.shape().bytes()) * s.copies * s.partials; };
    for (std::size_t j = 0; j < node.inputs.size(); ++j)
      if (!node.table->inputs[j].shape_only) bytes += moved(pcg.shape(node.inputs[j]));
    for (const ParallelShape& s : node.outputs) bytes += moved(s);
    double points = flops(*node.table, full_ranges(*node.table)) / tasks;
    seconds += device.launch_overhead.seconds() +
               std::max(points / device.peak.at(DType::f32).rate, bytes / tasks / device.memory_bandwidth.rate);
  }
  return seconds;
}

Picoseconds path_time(const Pcg& pcg, const CostModel& cost) {
  std::int64_t longest = 0;
  std::vector<std::int64_t> until(pcg.size(), 0);
  std::vector<bool> trained(pcg.size(), false);  // a gradient flows through it
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& node = pcg.nodes()[i];
    trained[i] = node.is_leaf() ? node.op->trainable() : false;
    for (ValueRef v : node.inputs) {
      until[i] = std::max(until[i], until[v.node.index()]);
      trained[i] = trained[i] || trained[v.node.index()];
    }
    if (!node.is_compute() || !node.table || node.op->name() == "deliver") continue;
    double tasks = node_sharding(pcg, NodeId(static_cast<std::int64_t>(i))).tasks();
    // Results are written; of operands it may be that few elements are read.
    Task task{.flops = flops(*node.table, full_ranges(*node.table)) / tasks};
    for (const ParallelShape& s : node.outputs)
      task.bytes += static_cast<double>(s.shape().bytes()) * s.copies * s.partials / tasks;
    until[i] += cost.task_time(task, nullptr, DeviceId(0)).count * (trained[i] ? 2 : 1);
    longest = std::max(longest, until[i]);
  }
  return {longest};
}

}  // namespace unity
