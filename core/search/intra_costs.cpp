#include "core/search/intra_costs.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "core/graph/autodiff.h"
#include "core/plan/device_blocks.h"
#include "core/plan/row_updates.h"
#include "core/search/device_speeds.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

double bytes_of(const ParallelShape& s) { return static_cast<double>(s.shape().bytes()); }

// By operator, whether it looks up rows of a trainable table, which no other reads.
std::vector<bool> find_lookups(const IntraPlans& plans) {
  const Pcg& model = plans.model();
  const std::vector<bool> needs = needs_gradient(model);
  const std::vector<std::vector<Pcg::Use>> uses = model.uses();
  auto is_shared = [&](ValueRef v) { return needs[v.node.index()] && uses[v.node.index()].size() > 1; };
  std::vector<bool> found;
  for (NodeId id : plans.operators())
    found.push_back(needs[id.index()] && looks_up_rows(model, id, gradient_program(model, id, needs)) &&
                    std::none_of(model[id].inputs.begin(), model[id].inputs.end(), is_shared));
  return found;
}

// One device of each kind that there is, the first device's first.
std::vector<DeviceId> kinds_among(const Topology& topology, const Resources& devices) {
  std::vector<DeviceId> kinds;
  std::set<std::size_t> specs;
  for (int d = devices.first; d < devices.first + devices.count; ++d)
    if (specs.insert(topology.device(DeviceId(d)).spec).second) kinds.emplace_back(d);
  return kinds;
}

// Where a group lies: in its nodes, of which all are alike, and in the levels of the machine; and what a ring through
// it takes. Equal for groups whose collectives take as long.
using LiesAs = std::tuple<int, std::vector<int>, double, Picoseconds>;

// `node`: devices of one; 0 where nodes are not alike.
LiesAs lies_as(const Topology& topology, const std::vector<DeviceId>& group, int node, double ring,
               Picoseconds latencies) {
  LiesAs as{node > 0 ? group[0].value % node : group[0].value, {}, ring, latencies};
  for (std::size_t level = 0; level < topology.levels.size(); ++level)
    for (DeviceId d : group) std::get<1>(as).push_back(topology.part(level, d) - topology.part(level, group[0]));
  return as;
}

// Devices of a node, where all nodes are built alike; else 0.
int size_of_nodes(const Topology& topology) {
  const int node = common_node_size(topology);
  const bool whole = node * topology.nodes == static_cast<int>(topology.device_count());
  return whole && DeviceBlocks(topology).are_alike(node) ? node : 0;
}

}  // namespace

IntraCosts::IntraCosts(const StrategyInput& input, const IntraPlans& plans, Bytes bucket)
    : in_(input),
      plans_(plans),
      bucket_(bucket),
      reads_(backward_reads(plans)),
      lookups_(find_lookups(plans)),
      node_(size_of_nodes(input.evaluator.cost().topology())) {}

std::int64_t IntraCosts::collective(CollectiveKind kind, int group, int stride, const Resources& devices,
                                    double bytes) const {
  if (group < 2 || bytes < 1) return 0;
  auto whole = static_cast<std::int64_t>(bytes);
  const std::tuple key{kind, group, stride, devices, whole};
  {
    std::lock_guard lock(mutex_);
    if (auto known = collectives_.find(key); known != collectives_.end()) return known->second;
  }
  std::int64_t time = slowest_collective(kind, group, stride, devices, Bytes{whole});
  std::lock_guard lock(mutex_);
  return collectives_.emplace(key, time).first->second;
}

std::int64_t IntraCosts::slowest_collective(CollectiveKind kind, int group, int stride, const Resources& devices,
                                            Bytes bytes) const {
  const CostModel& cost = in_.evaluator.cost();
  const Topology& topology = cost.topology();
  std::vector<std::vector<DeviceId>> groups;
  for (int block = 0; block + group * stride <= devices.count; block += group * stride)
    for (int offset = 0; offset < stride; ++offset) {
      groups.emplace_back();
      for (int i = 0; i < group; ++i) groups.back().emplace_back(devices.first + block + offset + i * stride);
    }
  // Groups whose rings meet on a link take turns there; what one waits for in all of its steps, it waits for once.
  std::unordered_map<LinkId, double> busy;  // by link: rings that go through it
  auto each_link = [&](const std::vector<DeviceId>& g, auto visit) {
    for (std::size_t i = 0; i < g.size(); ++i)
      for (LinkId l : topology.route(g[i], g[(i + 1) % g.size()])) visit(l);
  };
  if (groups.size() > 1)
    for (const auto& g : groups) each_link(g, [&](LinkId l) { ++busy[l]; });
  std::map<LiesAs, std::pair<std::int64_t, std::int64_t>> known;  // what all bytes take, and one
  std::int64_t slowest = 0;
  for (const auto& g : groups) {
    std::unordered_map<LinkId, double> own;
    Picoseconds around;
    auto visit = [&](LinkId l) { ++own[l], around += topology.links[l.index()].latency; };
    if (groups.size() > 1) each_link(g, visit);
    double alone = 0, together = 0;  // seconds for each byte that goes around
    for (auto [l, rings] : own) {
      const double rate = topology.links[l.index()].bandwidth.rate;
      alone = std::max(alone, rings / rate), together = std::max(together, busy.at(l) / rate);
    }
    auto [at, fresh] = known.try_emplace(lies_as(topology, g, node_, alone, around));
    auto& [time, latency] = at->second;
    if (fresh) {
      time = cost.collective_time(kind, g, bytes).count;
      latency = std::min(time, cost.collective_time(kind, g, Bytes{1}).count);
    }
    const double slower = alone > 0 ? together / alone : 1;
    slowest = std::max(slowest, latency + static_cast<std::int64_t>(slower * static_cast<double>(time - latency)));
  }
  return slowest;
}

double IntraCosts::move_time(const ParallelShape& from, const ParallelShape& to, int micro_batches,
                             const Resources& devices) const {
  double bytes = bytes_of(from) / micro_batches, shard = bytes / from.shards();
  int summands = from.partials / std::max(1, to.partials), copies = to.copies / std::max(1, from.copies);
  bool refined = to.shards() > from.shards();
  int alike = 1;  // shards along dimensions that stay as they are: in each, devices exchange among themselves
  for (std::size_t d = 0; d < from.dims.size(); ++d)
    if (from.dims[d].degree == to.dims[d].degree) alike *= to.dims[d].degree;
  const bool same = alike == from.shards() && alike == to.shards();
  const int among = std::max(from.shards(), to.shards()) / alike;
  std::int64_t time = 0;
  if (summands > 1 && same) {
    time = collective(copies > 1 ? CollectiveKind::all_reduce : CollectiveKind::reduce, summands, 1, devices, shard);
  } else if (summands > 1) {
    time =
        collective(refined ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, summands, 1, devices, shard);
  } else if (same && copies > 1) {
    time = collective(CollectiveKind::broadcast, copies, 1, devices, shard);
  } else if (!same && copies > 1) {
    time = collective(CollectiveKind::all_gather, among, 1, devices, bytes / alike);
  } else if (!same && !refined) {
    time = collective(CollectiveKind::all_to_all, among, 1, devices, bytes / alike);
  } else if (!same) {
    time = collective(CollectiveKind::broadcast, among, 1, devices, shard);
  }
  return 2 * static_cast<double>(time);
}

const IntraCosts::Sums& IntraCosts::sums(const IntraPlan& plan, int micro_batches, const Resources& devices) const {
  const std::tuple key{plan, micro_batches, devices};
  {
    std::lock_guard lock(mutex_);
    if (auto known = sums_.find(key); known != sums_.end()) return known->second;
  }
  Sums sums = sums_of(plan, micro_batches, devices);
  std::lock_guard lock(mutex_);
  return sums_.emplace(key, std::move(sums)).first->second;
}

const StageBytes& IntraCosts::bytes(const IntraPlan& plan, int micro_batches) const {
  const std::pair key{plan, micro_batches};
  {
    std::lock_guard lock(mutex_);
    if (auto known = bytes_.find(key); known != bytes_.end()) return known->second;
  }
  StageBytes bytes = stage_bytes(plans_, plan, micro_batches, reads_);
  std::lock_guard lock(mutex_);
  return bytes_.emplace(key, std::move(bytes)).first->second;
}

const std::vector<std::size_t>& IntraCosts::alike(const IntraPlan& plan) const {
  {
    std::lock_guard lock(mutex_);
    if (auto known = alike_.find(plan); known != alike_.end()) return known->second;
  }
  std::vector<std::size_t> first_alike;
  std::map<std::string, std::size_t> seen;
  std::set<NodeId> stored;
  const Pcg &model = plans_.model(), &pcg = plans_.model(plan);
  const std::vector<NodeId>& nodes = plans_.operators(plan);
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const Node& n = pcg[nodes[k]];
    std::string text(n.op->name());
    for (const AttributeValue& a : n.attributes) text += ' ' + to_string(a);
    for (std::size_t j = 0; j < n.inputs.size(); ++j) {
      const ValueRef source = source_of(pcg, n.inputs[j]);
      const Node& producer = pcg[source.node];
      const bool of_leaf = producer.is_leaf() && producer.op->stored();
      text += fmt::format("; {} {} {}{}{}", to_string(pcg.shape(n.inputs[j])), producer.is_compute(),
                          plans_.needs_gradient(model[plans_.operators()[k]].inputs[j].node), of_leaf,
                          of_leaf && stored.insert(source.node).second);
      if (producer.is_compute()) text += to_string(pcg.shape(source));
    }
    for (const ParallelShape& shape : n.outputs) text += ": " + to_string(shape);
    text += fmt::format("; {} {} {}", plans_.batch_axis(k).value_or(-1), bool(plans_.in_block(k)), bool(lookups_[k]));
    first_alike.push_back(seen.try_emplace(std::move(text), k).first->second);
  }
  std::lock_guard lock(mutex_);
  return alike_.emplace(plan, std::move(first_alike)).first->second;
}

IntraCosts::OperatorCosts IntraCosts::operator_costs(std::size_t op, Sharding sharding,
                                                     std::span<const ParallelShape> operands,
                                                     const std::vector<bool>& own, int micro_batches,
                                                     const Resources& devices) const {
  const Pcg& model = plans_.model();
  const Node& n = model[plans_.operators()[op]];
  const CostModel& cost = in_.evaluator.cost();
  const std::vector<DeviceId> kinds = kinds_among(cost.topology(), devices);
  auto time_on = [&](DeviceId device, double flops, double bytes) {
    Task task;
    task.flops = flops, task.bytes = bytes;
    return static_cast<double>(cost.task_time(task, nullptr, device).count);
  };
  // Each has as much to do: what waits for all of them waits for the slowest. The first has a task of each operator.
  auto task_time = [&](double flops, double bytes) {
    double slowest = 0;
    for (DeviceId d : kinds) slowest = std::max(slowest, time_on(d, flops, bytes));
    return slowest;
  };
  auto fastest = [&](double flops, double bytes) {
    double least = std::numeric_limits<double>::infinity();
    for (DeviceId d : kinds) least = std::min(least, time_on(d, flops, bytes));
    return least;
  };
  auto on_first = [&](double flops, double bytes) { return time_on(kinds[0], flops, bytes); };
  // Of gradients in buckets (buckets.h), each takes its share of a bucket's time.
  const auto bucket = static_cast<double>(bucket_.count);
  auto summed = [&](double shard, int copies) {
    double whole = std::max(shard, bucket);
    return shard / whole *
           static_cast<double>(
               collective(CollectiveKind::all_reduce, copies, std::max(1, devices.count / copies), devices, whole));
  };
  const int states = in_.options.optimizer.states();
  const bool by_rows = updates_by_rows(in_.options.optimizer);
  const AxisTable& table = *n.table;
  if (auto axis = plans_.batch_axis(op)) sharding.micro[static_cast<std::size_t>(*axis)] = micro_batches;
  TaskGrid grid = task_grid(table, sharding);
  std::vector<Range> ranges = task_ranges(table, sharding, grid, grid_coordinates(grid, 0));
  double work = flops(table, ranges), read = 0, made = 0, time = 0, compute = 0, least = 0, sync = 0, update = 0,
         persistent = 0, gradients = 0;
  std::vector<Shape> blocks;  // of operands
  for (const OperandAxes& in : table.inputs) blocks.push_back({operand_box(table, in, ranges).extent, in.dtype});
  const Shape result{operand_box(table, table.outputs[0], ranges).extent, table.outputs[0].dtype};
  auto bytes_read = [&](std::size_t j) {
    const std::int64_t all = blocks[j].elements();
    return static_cast<double>(std::min(all, n.op->elements_read(blocks, result, j).value_or(all)) *
                               size_of(blocks[j].dtype));
  };
  for (std::size_t j = 0; j < blocks.size(); ++j)
    if (!table.inputs[j].shape_only) read += bytes_read(j);
  for (const OperandAxes& out : table.outputs)
    made += static_cast<double>(operand_box(table, out, ranges).elements() * size_of(out.dtype));
  time += task_time(work, read + made), compute += on_first(work, made), least += fastest(work, made);
  // What is not a product may have a gradient that takes no time: that of a sum is what comes in.
  const bool product = table.inputs.size() >= 2 && std::any_of(table.axes.begin(), table.axes.end(), [](const Axis& a) {
                         return a.role == AxisRole::reduction;
                       });
  double again = plans_.in_block(op) ? task_time(work, read + made) : 0;
  for (std::size_t j = 0; j < n.inputs.size(); ++j) {
    const ParallelShape& shape = operands[j];
    const NodeId in_model = n.inputs[j].node;
    const Node& producer = model[source_of(model, n.inputs[j]).node];
    if (plans_.needs_gradient(in_model) && !table.inputs[j].shape_only)
      time += task_time(work, read + made), compute += product && j < 2 ? on_first(work, 0) : 0,
          least += product && j < 2 ? fastest(work, 0) : 0;
    if (!producer.is_leaf() || !producer.op->stored()) continue;
    double shard = bytes_of(shape) / shape.shards();
    // A table is updated by the rows that were looked up, or has a gradient of all rows.
    if (lookups_[op] && plans_.needs_gradient(in_model)) {
      if (by_rows && micro_batches == 1 && shape.copies == 1 && own[j]) {
        update += task_time(0, read + bytes_read(j) + made), persistent += (1 + states) * shard;
        continue;
      }
      time += task_time(0, shard);
    }
    if (micro_batches > 1) time += task_time(0, 3 * shard);  // gradients of micro-batches are added up
    if (!own[j]) {                                           // in another stage, it and its gradient go to and fro
      persistent += 2 * shard, gradients += shard;
      continue;
    }
    sync += summed(shard, shape.copies);
    update += task_time(0, (3 + 2 * states) * shard);
    persistent += (2 + states) * shard, gradients += shard;
  }
  return {least * task_count(grid), on_first(work, made), time, compute, sync, update, persistent, gradients, again};
}

IntraCosts::Sums IntraCosts::sums_of(const IntraPlan& plan, int micro_batches, const Resources& devices) const {
  Sums sums;
  const Pcg& pcg = plans_.model(plan);
  const std::vector<NodeId>& nodes = plans_.operators(plan);
  const StageBytes& bytes = this->bytes(plan, micro_batches);
  sums.transient = bytes.transient, sums.transient_again = bytes.again;
  const std::vector<std::size_t>& first_alike = alike(plan);
  std::vector<OperatorCosts> costs(nodes.size());
  std::set<NodeId> stored;
  for (std::vector<double>* v : {&sums.time, &sums.sync, &sums.update, &sums.persistent, &sums.gradients,
                                 &sums.in_flight, &sums.again, &sums.kept, &sums.compute, &sums.work, &sums.forward})
    v->assign(1, 0);
  auto push = [](std::vector<double>& v, double x) { v.push_back(v.back() + x); };
  auto add = [&](std::size_t k, const OperatorCosts& c) {
    push(sums.work, c.work), push(sums.forward, c.forward), push(sums.compute, c.compute), push(sums.time, c.time);
    push(sums.sync, c.sync), push(sums.update, c.update), push(sums.gradients, c.gradients);
    push(sums.persistent, bytes.outside[k] + c.persistent);
    push(sums.in_flight, bytes.held[k]), push(sums.kept, bytes.kept[k]);
    push(sums.again, plans_.needs_gradient(plans_.operators()[k]) ? c.again : 0);
  };
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const Node& n = pcg[nodes[k]];
    if (first_alike[k] < k) {
      for (ValueRef v : n.inputs)
        if (const ValueRef source = source_of(pcg, v); pcg[source.node].op->stored()) stored.insert(source.node);
      add(k, costs[k] = costs[first_alike[k]]);
      continue;
    }
    std::vector<ParallelShape> operands;
    std::vector<bool> own;
    for (ValueRef v : n.inputs) {
      const ValueRef source = source_of(pcg, v);
      operands.push_back(pcg.shape(v));
      own.push_back(pcg[source.node].is_leaf() && pcg[source.node].op->stored() && stored.insert(source.node).second);
    }
    costs[k] = operator_costs(k, node_sharding(pcg, nodes[k]), operands, own, micro_batches, devices);
    for (std::size_t j = 0; j < n.inputs.size(); ++j)
      if (const ValueRef source = source_of(pcg, n.inputs[j]); pcg[source.node].is_compute())
        costs[k].time += move_time(pcg.shape(source), operands[j], micro_batches, devices);
    add(k, costs[k]);
  }
  return sums;
}

}  // namespace unity
