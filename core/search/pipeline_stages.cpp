#include "core/search/pipeline_stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/graph/autodiff.h"
#include "core/rewrite/axis_classes.h"
#include "core/search/mapping_search.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

NodeId id_of(std::size_t i) { return NodeId(static_cast<std::int64_t>(i)); }

// Where a stored leaf goes: of the orders of its grid's dimensions, on the first devices of its stage or spread over
// all of them, the one with most elements where they are read.
MachineMapping map_leaf(const Pcg& pcg, NodeId leaf, const TaskGrid& grid, const Resources& stage,
                        const std::vector<std::pair<NodeId, std::size_t>>& users,
                        const std::vector<MachineMapping>& mappings) {
  MachineMapping best = natural_mapping(grid, stage.first);
  if (grid.empty()) return best;
  std::vector<int> units = {1};
  if (int tasks = task_count(grid); stage.count % tasks == 0 && tasks < stage.count)
    units.push_back(stage.count / tasks);
  if (grid.size() < 2 && units.size() < 2) return best;
  ParallelShape storage = storage_shape(pcg, leaf);
  std::vector<std::size_t> order(grid.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::int64_t most = -1;
  auto try_unit = [&](int unit) {
    MachineMapping choice{stage.first, std::vector<int>(grid.size())};
    int stride = unit;
    for (std::size_t k = order.size(); k-- > 0;) choice.strides[order[k]] = stride, stride *= grid[order[k]].degree;
    std::map<DeviceId, Box> stored;
    for (int t = 0; t < task_count(grid); ++t) {
      std::vector<int> c = grid_coordinates(grid, t);
      stored.emplace(choice.device(c), storage_box(storage, grid, c));
    }
    std::int64_t local = 0;
    for (auto [user, operand] : users) {
      const AxisTable& table = *pcg[user].table;
      Sharding sharding = node_sharding(pcg, user);
      std::fill(sharding.micro.begin(), sharding.micro.end(), 1);
      TaskGrid tasks = task_grid(table, sharding);
      for (int t = 0; t < task_count(tasks); ++t) {
        std::vector<int> c = grid_coordinates(tasks, t);
        if (auto it = stored.find(mappings[user.index()].device(c)); it != stored.end())
          local +=
              intersect(it->second, operand_box(table, table.inputs[operand], task_ranges(table, sharding, tasks, c)))
                  .elements();
      }
    }
    if (local > most) most = local, best = choice;
  };
  do
    for (int unit : units) try_unit(unit);
  while (std::next_permutation(order.begin(), order.end()));
  return best;
}

}  // namespace

std::map<NodeId, int> batch_axes(const Pcg& pcg) {
  std::map<NodeId, int> axes;
  std::vector<AxisClass> classes = axis_classes(pcg);
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (n.op->name() != "input" || n.outputs[0].dims.empty()) continue;
    auto found = class_of_dimension(pcg, classes, {id_of(i), 0}, 0);
    if (!found) continue;
    for (const AxisClassMember& m : classes[*found].members) axes.emplace(m.node, m.axis);
  }
  return axes;
}

std::vector<bool> lookups(const Pcg& pcg) {
  std::vector<bool> found(pcg.size(), false);
  const std::vector<bool> needs = needs_gradient(pcg);
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].is_compute() && needs[i])
      found[i] = looks_up_rows(pcg, id_of(i), gradient_program(pcg, id_of(i), needs));
  return found;
}

Result<Pcg> with_micro_batches(const Pcg& pcg, int micro_batches, const std::vector<bool>& whole) {
  if (micro_batches == 1) return pcg;
  static const Operator &pipeline = get_operator("pipeline"), &batch = get_operator("batch");
  std::map<NodeId, int> axes = batch_axes(pcg);
  if (axes.empty()) return fail("no operator can take the batch in parts");
  auto is_whole = [&](NodeId id) { return !whole.empty() && whole[id.index()]; };
  Pcg result;
  result.set_name(pcg.name());
  std::vector<NodeId> moved(pcg.size());
  std::map<std::pair<ValueRef, int>, ValueRef> cut, joined;  // by value of the result and dimension
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    auto axis = axes.find(id_of(i));
    // Of an operand: cut along the batch, or put together.
    auto laid_out = [&](const Operator& op, std::size_t dim, ValueRef v) -> Result<ValueRef> {
      auto [found, fresh] = (&op == &pipeline ? cut : joined).try_emplace({v, static_cast<int>(dim)});
      if (fresh)
        found->second = {
            UNITY_TRY(result.try_add(op, {static_cast<std::int64_t>(dim), std::int64_t{micro_batches}}, {v}, n.origin)),
            0};
      return found->second;
    };
    std::vector<ValueRef> inputs;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      ValueRef v = {moved[n.inputs[k].node.index()], n.inputs[k].output};
      const std::vector<ParallelDim> dims = result.shape(v).dims;
      const NodeId source = source_of(pcg, n.inputs[k]).node;
      for (std::size_t d = 0; n.is_compute() && d < dims.size(); ++d) {
        if (is_whole(id_of(i))) {
          if (dims[d].micro == micro_batches) v = UNITY_TRY(laid_out(batch, d, v));
        } else if ((pcg[source].is_leaf() || is_whole(source)) && axis != axes.end() && dims[d].micro == 1 &&
                   split_axis(*n.table, n.table->inputs[k].dims[d]) == axis->second) {
          v = UNITY_TRY(laid_out(pipeline, d, v));
          break;
        }
      }
      inputs.push_back(v);
    }
    auto added = result.try_add(*n.op, n.attributes, std::move(inputs), n.origin, n.name);
    if (!added.ok()) return fail("{} micro-batches: {}: {}", micro_batches, n.name, added.error().message);
    moved[i] = *added;
  }
  std::vector<ValueRef> outputs;
  for (ValueRef v : pcg.outputs()) outputs.push_back({moved[v.node.index()], v.output});
  result.set_outputs(std::move(outputs));
  return result;
}

std::vector<int> balanced_stages(const Pcg& pcg, const std::vector<double>& speeds) {
  auto stages = static_cast<int>(speeds.size());
  std::vector<std::size_t> order;  // compute nodes
  std::vector<double> work = {0};  // of those before
  std::vector<std::size_t> place(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    place[i] = order.size();
    if (!n.is_compute()) continue;
    order.push_back(i);
    work.push_back(work.back() + flops(*n.table, full_ranges(*n.table)));
  }
  // crossing[k]: bytes of values made before the k-th compute node and used by it or later.
  std::vector<double> crossing(order.size() + 1, 0);
  std::map<ValueRef, std::size_t> last_use;
  for (std::size_t i : order)
    for (ValueRef v : pcg.nodes()[i].inputs) {
      ValueRef source = source_of(pcg, v);
      if (pcg[source.node].is_compute()) last_use[source] = place[i];
    }
  for (const auto& [value, last] : last_use) {
    Shape shape = pcg.shape(value).shape();
    for (std::size_t k = place[value.node.index()] + 1; k <= last; ++k)
      crossing[k] += static_cast<double>(shape.elements() * size_of(shape.dtype));
  }
  std::vector<int> stage_of(pcg.size(), -1);
  std::size_t begin = 0;
  double speed = 0, all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  for (int s = 0; s < stages; ++s) {
    std::size_t end = order.size();
    double share = work.back() / all * speeds[static_cast<std::size_t>(s)];
    speed += speeds[static_cast<std::size_t>(s)];
    if (s + 1 < stages) {
      double wanted = work.back() / all * speed;
      // Each of the stages left needs an operator.
      std::size_t first = begin + 1, last = order.size() - static_cast<std::size_t>(stages - s - 1);
      auto off = [&](std::size_t k) { return std::abs(work[k] - wanted); };
      std::size_t nearest = first;
      for (std::size_t k = first; k <= last; ++k)
        if (off(k) < off(nearest)) nearest = k;
      end = nearest;
      for (std::size_t k = first; k <= last; ++k) {
        if (off(k) > std::max(off(nearest), 0.1 * share)) continue;
        if (crossing[k] < crossing[end] || (crossing[k] == crossing[end] && off(k) < off(end))) end = k;
      }
    }
    for (; begin < end; ++begin) stage_of[order[begin]] = s;
  }
  for (std::size_t i : order)
    for (ValueRef v : pcg.nodes()[i].inputs) {
      ValueRef source = source_of(pcg, v);
      if (pcg[source.node].is_leaf() && stage_of[source.node.index()] < 0) stage_of[source.node.index()] = stage_of[i];
    }
  return stage_of;
}

std::vector<Resources> even_devices(int stages, int groups, int width) {
  std::vector<Resources> devices;
  for (int s = 0; s < stages; ++s) devices.push_back({s % groups * width, width});
  return devices;
}

Result<std::vector<MachineMapping>> map_stages(const Pcg& pcg, const std::vector<int>& stages,
                                               const std::vector<Resources>& devices) {
  std::vector<MachineMapping> mappings(pcg.size());
  auto stage_of = [&](std::size_t i) { return static_cast<std::size_t>(std::max(stages[i], 0)); };
  // By stage, the outermost degree of operators that are on all of its devices: what is cut so, too, but no further,
  // has its tasks among those that they exchange with, not on the first devices.
  std::vector<int> outer(devices.size(), 0);
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    if (!pcg.nodes()[i].is_compute()) continue;
    TaskGrid grid = node_grid(pcg, id_of(i));
    int& degree = outer[stage_of(i)];
    if (degree == 0 && grid.size() > 1 && task_count(grid) == devices[stage_of(i)].count) degree = grid[0].degree;
  }
  auto place = [&](NodeId id, bool leaf) -> Result<void> {
    const Node& n = pcg[id];
    const Resources& stage = devices[stage_of(id.index())];
    TaskGrid grid = node_grid(pcg, id);
    if (task_count(grid) > stage.count)
      return fail("{} ({}): {} tasks, expected at most the {} devices of a stage", n.name, n.op->name(),
                  task_count(grid), stage.count);
    if (leaf) return {};
    MachineMapping& mapping = mappings[id.index()] = natural_mapping(grid, stage.first);
    int tasks = task_count(grid);
    if (!grid.empty() && grid[0].degree == outer[stage_of(id.index())] && stage.count % tasks == 0)
      for (int& stride : mapping.strides) stride *= stage.count / tasks;
    return {};
  };
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (!pcg.nodes()[i].is_parallelization()) UNITY_TRY_VOID(place(id_of(i), pcg.nodes()[i].is_leaf()));
  auto uses = pcg.uses();
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    if (!pcg.nodes()[i].is_leaf()) continue;
    const Resources& stage = devices[stage_of(i)];
    TaskGrid grid = node_grid(pcg, id_of(i));
    bool stored = pcg.nodes()[i].op->stored();
    mappings[i] = stored ? map_leaf(pcg, id_of(i), grid, stage, readers(pcg, uses, id_of(i)), mappings)
                         : natural_mapping(grid, stage.first);
  }
  return mappings;
}

bool runs_in_stages(const Pcg& pcg, const std::vector<MachineMapping>& mappings) {
  const std::vector<Node>& nodes = pcg.nodes();
  if (std::none_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.op->name() == "pipeline"; })) return false;
  int first_end = std::numeric_limits<int>::max(), last_begin = 0;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    if (!nodes[i].is_compute()) continue;
    TaskGrid grid = node_grid(pcg, NodeId(static_cast<std::int64_t>(i)));
    int end = mappings[i].start;
    for (std::size_t g = 0; g < grid.size() && g < mappings[i].strides.size(); ++g)
      end += (grid[g].degree - 1) * mappings[i].strides[g];
    first_end = std::min(first_end, end), last_begin = std::max(last_begin, mappings[i].start);
  }
  return last_begin > first_end;
}

}  // namespace unity
