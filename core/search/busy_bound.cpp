#include "core/search/busy_bound.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/graph/autodiff.h"

namespace unity {
namespace {

// Whether a task never takes less time for moving more bytes: between two points of the curve the efficiency e grows
// by a constant with the logarithm of the bytes, so that bytes / e grow where e is at least that constant.
bool more_bytes_take_longer(const std::vector<EfficiencyPoint>& curve) {
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const EfficiencyPoint &a = curve[i - 1], &b = curve[i];
    if (a.amount <= 0 || b.amount <= a.amount) return false;
    if (a.fraction < (b.fraction - a.fraction) / std::log(b.amount / a.amount)) return false;
  }
  return true;
}

bool tasks_are_known(const Topology& t, const Schedule& schedule) {
  if (!(schedule == Schedule())) return false;
  std::set<std::size_t> used;
  for (const Device& d : t.devices)
    if (!used.insert(d.physical).second || t.physical_devices[d.physical].units != 1) return false;
  return std::all_of(t.specs.begin(), t.specs.end(),
                     [](const DeviceSpec& s) { return !s.profile && more_bytes_take_longer(s.memory_efficiency); });
}

// Element types that a device may compute with faster than with f32, which the cost model's tasks are taken for.
bool may_be_faster(const Topology& t, DType dtype) {
  return std::any_of(t.specs.begin(), t.specs.end(), [&](const DeviceSpec& s) {
    auto peak = s.peak.find(dtype);
    return peak != s.peak.end() && peak->second.rate > s.peak.at(DType::f32).rate;
  });
}

double bytes_read(const Operator& op, const std::vector<Shape>& inputs, const Shape& output, std::size_t i) {
  std::int64_t all = inputs[i].elements();
  return static_cast<double>(std::min(op.elements_read(inputs, output, i).value_or(all), all) *
                             size_of(inputs[i].dtype));
}

Shape block(const Box& box, DType dtype) { return {box.extent, dtype}; }

// The work of one task of an operator with this table.
struct Work {
  double flops = 0, bytes = 0;
};
Work work_of(const Operator& op, const AxisTable& table, const std::vector<Range>& ranges,
             const std::vector<Shape>& inputs) {
  Work work{flops(table, ranges), 0};
  std::vector<Shape> outputs;
  for (const OperandAxes& out : table.outputs) outputs.push_back(block(operand_box(table, out, ranges), out.dtype));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!table.inputs[i].shape_only) work.bytes += bytes_read(op, inputs, outputs[0], i);
  for (const Shape& out : outputs) work.bytes += static_cast<double>(out.bytes());
  return work;
}

// Whether all elements of an operand are read by the tasks together.
bool reads_all(const AxisTable& table, std::size_t operand, const Shape& shape) {
  const OperandAxes& in = table.inputs[operand];
  if (in.shape_only ||
      std::any_of(in.dims.begin(), in.dims.end(), [](const DimAxes& d) { return d.window.has_value(); }))
    return false;
  return operand_box(table, in, full_ranges(table)).extent == shape.dims;
}

std::vector<Shape> input_shapes(const Pcg& pcg, const Node& n) {
  std::vector<Shape> shapes;
  for (ValueRef v : n.inputs) shapes.push_back(pcg.shape(v).shape());
  return shapes;
}

// By node: whether a gradient is sure to come to all that holds its result.
std::vector<bool> sure_gradients(const Pcg& pcg, const std::vector<bool>& needs) {
  std::vector<bool> sure(pcg.size(), false);
  if (pcg.outputs().empty()) return sure;
  auto source = [&](ValueRef v) {
    while (pcg[v.node].is_parallelization() && pcg[v.node].inputs.size() == 1) v = pcg[v.node].inputs[0];
    return v.node;
  };
  sure[source(pcg.outputs()[0]).index()] = true;
  for (std::size_t i = pcg.size(); i-- > 0;) {
    NodeId id(static_cast<std::int64_t>(i));
    const Node& n = pcg[id];
    if (!sure[i] || !needs[i] || !n.is_compute() || n.outputs.size() != 1) continue;
    GradientProgram program = gradient_program(pcg, id, needs);
    std::vector<Shape> shapes = input_shapes(pcg, n);
    if (looks_up_rows(pcg, id, program)) continue;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (program.input_gradients[k] && reads_all(*n.table, k, shapes[k])) sure[source(n.inputs[k]).index()] = true;
  }
  return sure;
}

bool has_copies(const TaskGrid& grid) {
  return std::any_of(grid.begin(), grid.end(), [](const GridDim& d) { return d.kind == GridDim::Kind::copies; });
}

}  // namespace

BusyBound::BusyBound(const CostModel& cost, const OptimizerSpec& optimizer, const Schedule& schedule)
    : cost_(cost),
      topology_(cost.topology()),
      states_(optimizer.states()),
      known_(tasks_are_known(topology_, schedule)),
      of_kind_(topology_.specs.size()) {
  for (std::size_t d = topology_.device_count(); d-- > 0;)
    of_kind_[topology_.devices[d].spec] = DeviceId(static_cast<std::int64_t>(d));
}

void BusyBound::add_task(std::vector<Picoseconds>& times, double flops, double bytes) const {
  for (std::size_t k = 0; k < times.size(); ++k)
    if (of_kind_[k].valid())
      times[k].count += cost_.task_time({.flops = flops, .bytes = bytes}, nullptr, of_kind_[k]).count;
}

std::shared_ptr<const BusyBound::Tasks> BusyBound::operator_tasks(const Pcg& pcg, NodeId id, const TaskGrid& grid,
                                                                  bool backward, const std::vector<bool>& needs) {
  const Node& n = pcg[id];
  const AxisTable& table = *n.table;
  Hash key = combine(combine(hash_text(n.op->name()), hash_attributes(n.attributes)), backward);
  for (ValueRef v : n.inputs) key = combine(combine(key, hash_shape(pcg.shape(v))), needs[v.node.index()]);
  auto [known, fresh] = seen_.try_emplace(key);
  if (!fresh) return known->second;
  GradientProgram program;
  std::vector<AxisTable> steps;
  std::vector<std::vector<Shape>> step_shapes;  // logical ones of their results
  if (backward) program = gradient_program(pcg, id, needs);
  for (const GradientStep& s : program.steps) {
    std::vector<Shape> shapes;
    for (const GradientValue& v : s.inputs) {
      auto i = static_cast<std::size_t>(v.index);
      if (v.kind == GradientValue::Kind::input)
        shapes.push_back(pcg.shape(n.inputs[i]).shape());
      else if (v.kind == GradientValue::Kind::step)
        shapes.push_back(step_shapes[i][static_cast<std::size_t>(v.result)]);
      else
        shapes.push_back(n.outputs[i].shape());
    }
    steps.push_back(s.op->axes(s.attributes, shapes).value());
    step_shapes.emplace_back();
    for (const OperandAxes& out : steps.back().outputs) step_shapes.back().push_back(operand_shape(steps.back(), out));
  }
  Tasks tasks(static_cast<std::size_t>(task_count(grid)), std::vector<Picoseconds>(of_kind_.size()));
  const Sharding sharding = node_sharding(pcg, id);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    std::vector<Range> ranges = task_ranges(table, sharding, grid, grid_coordinates(grid, static_cast<int>(t)));
    std::vector<Box> in, out;
    std::vector<Shape> inputs;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      in.push_back(operand_box(table, table.inputs[i], ranges));
      inputs.push_back(block(in.back(), pcg.shape(n.inputs[i]).dtype));
    }
    for (const OperandAxes& o : table.outputs) out.push_back(operand_box(table, o, ranges));
    Work forward = work_of(*n.op, table, ranges, inputs);
    add_task(tasks[t], forward.flops, forward.bytes);
    std::vector<std::vector<Box>> made(steps.size());
    for (std::size_t s = 0; s < steps.size(); ++s) {
      std::vector<const Box*> boxes;
      std::vector<Shape> shapes;
      for (const GradientValue& v : program.steps[s].inputs) {
        auto i = static_cast<std::size_t>(v.index);
        bool of_step = v.kind == GradientValue::Kind::step, of_input = v.kind == GradientValue::Kind::input;
        boxes.push_back(of_step ? &made[i][static_cast<std::size_t>(v.result)] : of_input ? &in[i] : &out[i]);
        DType dtype = of_step    ? step_shapes[i][static_cast<std::size_t>(v.result)].dtype
                      : of_input ? pcg.shape(n.inputs[i]).dtype
                                 : n.outputs[i].dtype;
        shapes.push_back(block(*boxes.back(), dtype));
      }
      std::vector<Range> walked = axis_ranges(steps[s], boxes).value();
      for (const OperandAxes& o : steps[s].outputs) made[s].push_back(operand_box(steps[s], o, walked));
      Work step = work_of(*program.steps[s].op, steps[s], walked, shapes);
      add_task(tasks[t], step.flops, step.bytes);
    }
  }
  return known->second = std::make_shared<const Tasks>(std::move(tasks));
}

// As Emitter::update() counts them.
std::shared_ptr<const BusyBound::Tasks> BusyBound::updates(const Pcg& pcg, NodeId id, const TaskGrid& grid) {
  ParallelShape storage = storage_shape(pcg, id);
  Hash key = combine(hash_text("update"), hash_shape(storage));
  auto [known, fresh] = seen_.try_emplace(key);
  if (!fresh) return known->second;
  Tasks tasks(static_cast<std::size_t>(task_count(grid)), std::vector<Picoseconds>(of_kind_.size()));
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    Box box = storage_box(storage, grid, grid_coordinates(grid, static_cast<int>(t)));
    auto elements = static_cast<double>(box.elements());
    double weight = elements * static_cast<double>(size_of(storage.dtype)),
           state = elements * static_cast<double>(size_of(DType::f32));
    add_task(tasks[t], 4 * elements, 3 * weight + 2 * states_ * state);
  }
  return known->second = std::make_shared<const Tasks>(std::move(tasks));
}

BusyBound::Graph BusyBound::of(const Pcg& pcg) {
  Graph graph;
  if (!known_) return graph;
  for (const Node& n : pcg.nodes()) {
    if (n.op->name() == "pipeline" || n.op->name() == "batch" || n.op->name() == "boundary") return graph;
    for (const ParallelShape& s : n.outputs)
      if (may_be_faster(topology_, s.dtype)) return graph;
  }
  graph.grids.resize(pcg.size()), graph.tasks.resize(pcg.size());
  const std::vector<bool> needs = needs_gradient(pcg), sure = sure_gradients(pcg, needs);
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    const Node& n = pcg[id];
    if (n.is_compute()) {
      graph.grids[i] = node_grid(pcg, id);
      bool backward = sure[i] && needs[i] && n.outputs.size() == 1 && !has_copies(graph.grids[i]) &&
                      !looks_up_rows(pcg, id, gradient_program(pcg, id, needs));
      graph.tasks[i] = operator_tasks(pcg, id, graph.grids[i], backward, needs);
    } else if (n.op->name() == "weight" && sure[i]) {
      graph.grids[i] = node_grid(pcg, id);
      graph.tasks[i] = updates(pcg, id, graph.grids[i]);
    }
  }
  return graph;
}

Picoseconds BusyBound::busiest(const Graph& graph, const std::vector<MachineMapping>& mappings) const {
  std::vector<std::int64_t> busy(topology_.device_count(), 0);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!graph.tasks[i]) continue;
    std::vector<DeviceId> devices = mappings[i].devices(graph.grids[i]);
    for (std::size_t t = 0; t < devices.size(); ++t)
      busy[devices[t].index()] += (*graph.tasks[i])[t][topology_.device(devices[t]).spec].count;
  }
  return {busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end())};
}

}  // namespace unity
