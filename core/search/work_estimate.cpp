#include "core/search/work_estimate.h"

#include <algorithm>
#include <limits>

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
  const Topology& topology = cost.topology();
  std::vector<DeviceId> one_of_each_kind;
  for (std::size_t d = 0; d < topology.device_count(); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    if (std::none_of(one_of_each_kind.begin(), one_of_each_kind.end(),
                     [&](DeviceId k) { return topology.device(k).spec == topology.device(device).spec; }))
      one_of_each_kind.push_back(device);
  }
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
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (DeviceId d : one_of_each_kind) least = std::min(least, cost.task_time(task, nullptr, d).count);
    until[i] += least * (trained[i] ? 2 : 1);
    longest = std::max(longest, until[i]);
  }
  return {longest};
}

namespace {

// Of an operand, what windows reach in parts of one element each, which together leave out most: between windows with
// strides beyond their size lies what no such part has.
double reached(const AxisTable& table, const OperandAxes& operand) {
  double fraction = 1;
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    const DimAxes& dim = operand.dims[d];
    const int axis = split_axis(table, dim);
    if (!dim.window || axis < 0 || dim.window->stride <= (dim.window->kernel - 1) * dim.window->dilation + 1) continue;
    std::vector<Range> ranges = full_ranges(table);
    std::int64_t read = 0, end = 0;
    for (std::int64_t i = 0; i < table.axes[static_cast<std::size_t>(axis)].size; ++i) {
      ranges[static_cast<std::size_t>(axis)] = {i, 1};
      const Box box = operand_box(table, operand, ranges);
      const std::int64_t last = box.offset[d] + box.extent[d];
      read += std::max<std::int64_t>(0, last - std::max(end, box.offset[d]));
      end = std::max(end, last);
    }
    fraction *= static_cast<double>(read) / static_cast<double>(dim.window_size);
  }
  return fraction;
}

}  // namespace

double memory_traffic(const Operator& op, const AxisTable& table) {
  std::vector<Shape> in;
  for (const OperandAxes& o : table.inputs) in.push_back(operand_shape(table, o));
  Shape first = operand_shape(table, table.outputs[0]);
  double bytes = 0;
  for (std::size_t k = 0; k < in.size(); ++k) {
    if (table.inputs[k].shape_only) continue;
    std::int64_t read = std::min(in[k].elements(), op.elements_read(in, first, k).value_or(in[k].elements()));
    bytes += reached(table, table.inputs[k]) * static_cast<double>(read * size_of(in[k].dtype));
  }
  for (const OperandAxes& o : table.outputs)
    bytes += reached(table, o) * static_cast<double>(operand_shape(table, o).bytes());
  return bytes;
}

}  // namespace unity
