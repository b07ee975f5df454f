#include "core/search/mapping_problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/machine/mapping_families.h"
#include "core/ops/box_index.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

constexpr std::size_t kMostMappings = 6;  // per operator: beyond the first few orders only rotations of the same remain

void add_fresh(std::vector<MachineMapping>& choices, const std::vector<MachineMapping>& more) {
  for (const MachineMapping& m : more)
    if (std::find(choices.begin(), choices.end(), m) == choices.end()) choices.push_back(m);
}

std::vector<MachineMapping> of_users_families(const TaskGrid& grid, const Topology& topology) {
  return topology.mapping_families ? topology.mapping_families->mappings(grid) : std::vector<MachineMapping>();
}

// Where devices of another kind begin that are enough for the tasks, there these may begin.
std::vector<MachineMapping> on_each_kind(const TaskGrid& grid, const Topology& topology) {
  std::vector<MachineMapping> found;
  std::set<std::size_t> kinds;
  auto tasks = static_cast<std::size_t>(task_count(grid));
  for (std::size_t d = 0; d + tasks <= topology.device_count(); ++d)
    if (kinds.insert(topology.devices[d].spec).second && d > 0)
      found.push_back(natural_mapping(grid, static_cast<int>(d)));
  return found;
}

}  // namespace

Result<void> MappingProblem::build() {
  UNITY_TRY_VOID(build_items());
  build_edges();
  overlaps_.resize(edges_.size());
  return {};
}

Result<void> MappingProblem::build_items() {
  item_of_.assign(pcg_.size(), -1);
  Resources all{0, static_cast<int>(topology_.device_count())};
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    const Node& n = pcg_[id];
    bool boundary = n.op->name() == "boundary";
    if (n.is_parallelization() || (n.is_leaf() && !boundary)) continue;
    Item item;
    item.node = id;
    item.fixed = boundary || n.op->name() == "deliver";
    Sharding sharding;
    if (boundary) {
      ParallelShape storage = storage_shape(pcg_, id);
      item.grid = storage_grid(storage);
      item.outputs.resize(1), item.partials.resize(1);
      for (int t = 0; t < task_count(item.grid); ++t) {
        item.coordinates.push_back(grid_coordinates(item.grid, t));
        Box box = storage_box(storage, item.grid, item.coordinates.back());
        item.outputs[0].push_back(box), item.partials[0].push_back(0), item.passing.push_back(0);
      }
    } else {
      const AxisTable& table = *n.table;
      sharding = node_sharding(pcg_, id);
      item.grid = task_grid(table, sharding);
      if (sharding.tasks() > all.count)
        return fail("{} ({}) has {} tasks, more than the {} devices", n.name, n.op->name(), sharding.tasks(),
                    all.count);
      item.inputs.resize(table.inputs.size()), item.outputs.resize(table.outputs.size()),
          item.partials.resize(table.outputs.size());
      Sharding whole = sharding;  // micro-batches share their device, so their union is what matters here
      std::fill(whole.micro.begin(), whole.micro.end(), 1);
      for (int t = 0; t < task_count(item.grid); ++t) {
        std::vector<int> c = grid_coordinates(item.grid, t);
        std::vector<Range> ranges = task_ranges(table, whole, item.grid, c);
        for (std::size_t k = 0; k < table.inputs.size(); ++k)
          item.inputs[k].push_back(operand_box(table, table.inputs[k], ranges));
        for (std::size_t k = 0; k < table.outputs.size(); ++k) {
          item.outputs[k].push_back(operand_box(table, table.outputs[k], ranges));
          item.partials[k].push_back(output_partial(table, item.grid, c, k));
        }
        item.passing.push_back(passing_partial(item.grid, c));
        if (t == 0) {
          item.first.flops = 3 * flops(table, ranges);  // forward once, backward about twice
          for (const auto& boxes : item.inputs) item.first.bytes += 12.0 * static_cast<double>(boxes[0].elements());
          for (const auto& boxes : item.outputs) item.first.bytes += 12.0 * static_cast<double>(boxes[0].elements());
        }
        item.coordinates.push_back(std::move(c));
      }
    }
    item.layout = mix(task_count(item.grid));
    for (const auto* operands : {&item.inputs, &item.outputs})
      for (const auto& boxes : *operands)
        for (const Box& b : boxes)
          for (std::size_t d = 0; d < b.rank(); ++d)
            item.layout = combine(item.layout, static_cast<Hash>(b.offset[d]) << 32 ^ static_cast<Hash>(b.extent[d]));
    for (const GridDim& g : item.grid)
      item.layout = combine(
          item.layout, static_cast<Hash>(g.kind) << 32 | static_cast<Hash>(g.axis) << 16 | static_cast<Hash>(g.degree));
    item_of_[i] = static_cast<int>(items_.size());
    items_.push_back(std::move(item));
  }
  for (Item& item : items_) {
    item.choices = {natural_mapping(item.grid)};
    if (!item.fixed) {
      auto others = unity::mappings(item.grid, topology_, all);
      if (others.size() > kMostMappings) others.resize(kMostMappings);
      if (!others.empty()) item.choices = others;
      // Serial operators of parallel branches may run anywhere: one start per outermost share.
      int tasks = task_count(item.grid);
      if (2 * tasks <= all.count) item.choices.push_back(natural_mapping(item.grid, all.count / 2));
      add_fresh(item.choices, on_each_kind(item.grid, topology_));
      add_fresh(item.choices, of_users_families(item.grid, topology_));
    }
    std::vector<std::int64_t> time_on(topology_.specs.size(), -1);  // of a task, by kind of device
    for (const MachineMapping& m : item.choices) {
      std::vector<DeviceId> devices;
      for (const auto& c : item.coordinates) devices.push_back(m.device(c));
      std::int64_t slowest = 0;
      for (DeviceId d : devices) {
        std::int64_t& time = time_on[topology_.device(d).spec];
        if (time < 0) time = item.fixed ? 0 : cost_.task_time(item.first, nullptr, d).count;
        slowest = std::max(slowest, time);
      }
      item.compute.push_back(slowest);
      item.devices.push_back(std::move(devices));
    }
  }
  return {};
}

void MappingProblem::build_edges() {
  edges_of_.resize(items_.size());
  for (std::size_t to = 0; to < items_.size(); ++to) {
    const Node& n = pcg_[items_[to].node];
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.table->inputs[i].shape_only) continue;
      std::vector<std::pair<ValueRef, int>> open = {{n.inputs[i], 1}};
      while (!open.empty()) {
        auto [v, sum] = open.back();
        open.pop_back();
        const Node& source = pcg_[v.node];
        if (source.is_parallelization()) {
          if (source.op->name() == "reduce") sum *= static_cast<int>(int_attribute(source.attributes, 0));
          for (ValueRef in : source.inputs) open.emplace_back(in, source.op->name() == "stack_partials" ? 1 : sum);
        } else if (item_of_[v.node.index()] >= 0) {
          auto number = static_cast<int>(edges_.size());
          edges_.push_back({item_of_[v.node.index()], v.output, static_cast<int>(to), static_cast<int>(i), sum,
                            size_of(pcg_.shape(v).dtype)});
          edges_of_[static_cast<std::size_t>(edges_.back().from)].push_back(number);
          edges_of_[to].push_back(number);
        }
      }
    }
  }
}

const MappingProblem::Overlaps& MappingProblem::overlaps(const Edge& e) const {
  std::optional<Overlaps>& known = overlaps_[static_cast<std::size_t>(&e - edges_.data())];
  if (known) return *known;
  const auto& used = items_[static_cast<std::size_t>(e.to)].inputs[static_cast<std::size_t>(e.input)];
  BoxIndex held(items_[static_cast<std::size_t>(e.from)].outputs[static_cast<std::size_t>(e.output)]), wanted(used);
  std::vector<std::vector<int>> holders(held.boxes().size());
  for (std::size_t s = 0; s < held.numbers().size(); ++s)
    holders[static_cast<std::size_t>(held.numbers()[s])].push_back(static_cast<int>(s));
  known.emplace();
  known->box_of = wanted.numbers();
  for (const Box& box : wanted.boxes()) {
    known->held.emplace_back();
    for (int h : held.meeting(box)) {
      std::int64_t common = common_elements(held.boxes()[static_cast<std::size_t>(h)], box);
      for (int s : holders[static_cast<std::size_t>(h)]) known->held.back().emplace_back(s, common);
    }
  }
  return *known;
}

// What must move, box by box: the slowest device's missing bytes over its route, and the all-reduce of summands.
std::int64_t MappingProblem::movement_time(const Edge& e, int from_choice, int to_choice) const {
  const Item& from = items_[static_cast<std::size_t>(e.from)];
  const Item& to = items_[static_cast<std::size_t>(e.to)];
  const auto& held_at = from.devices[static_cast<std::size_t>(from_choice)];
  const auto& used_at = to.devices[static_cast<std::size_t>(to_choice)];
  const auto& held = from.outputs[static_cast<std::size_t>(e.output)];
  const auto& used = to.inputs[static_cast<std::size_t>(e.input)];
  const auto& partials = from.partials[static_cast<std::size_t>(e.output)];
  std::int64_t time = 0;
  if (e.sum > 1) {
    for (std::size_t s = 0; s < held.size(); ++s) {
      if (partials[s] % e.sum != 0) continue;
      std::vector<DeviceId> group;
      for (std::size_t t = 0; t < held.size(); ++t)
        if (held[t] == held[s] && partials[t] / e.sum == partials[s] / e.sum) group.push_back(held_at[t]);
      std::sort(group.begin(), group.end());
      group.erase(std::unique(group.begin(), group.end()), group.end());
      if (group.size() < 2) continue;
      CollectiveKind kind = used.size() > 1 ? CollectiveKind::all_reduce : CollectiveKind::reduce;
      time = std::max(time, cost_.collective_time(kind, group, {held[s].elements() * e.element_bytes}).count);
    }
  }
  std::vector<int> held_on(topology_.device_count(), -1);  // by device: a task of the producer
  for (std::size_t s = 0; s < held.size(); ++s) held_on[held_at[s].index()] = static_cast<int>(s);
  const Overlaps& common = overlaps(e);
  std::int64_t slowest = 0;
  for (std::size_t t = 0; t < used.size(); ++t) {
    auto same = [&](std::size_t s) {
      return e.sum > 1 || partials[s] == (partials.size() > 1 ? to.passing[t] : 0) || to.passing[t] == 0;
    };
    int own = held_on[used_at[t].index()];
    if (own >= 0 && same(static_cast<std::size_t>(own)) && held[static_cast<std::size_t>(own)].contains(used[t]))
      continue;
    std::int64_t local = 0;
    int nearest = -1;
    DeviceId source;
    for (auto [task, overlap] : common.held[static_cast<std::size_t>(common.box_of[t])]) {
      auto s = static_cast<std::size_t>(task);
      if (!same(s)) continue;
      if (held_at[s] == used_at[t]) {
        local = std::max(local, overlap);
      } else if (int d = topology_.distance_level(held_at[s], used_at[t]); d > nearest) {
        nearest = d, source = held_at[s];
      }
    }
    std::int64_t missing = used[t].elements() - local;
    if (missing <= 0 || nearest < 0) continue;
    double seconds = static_cast<double>(missing * e.element_bytes) / topology_.bandwidth(source, used_at[t]).rate;
    slowest = std::max(slowest, from_seconds(seconds).count + topology_.latency(source, used_at[t]).count);
  }
  return 2 * (time + slowest);  // and its adjoint
}

std::int64_t MappingProblem::edge_cost(const Edge& e, int from_choice, int to_choice) const {
  const Item& from = items_[static_cast<std::size_t>(e.from)];
  const Item& to = items_[static_cast<std::size_t>(e.to)];
  Hash key = combine(from.layout, to.layout);
  for (const Item* item : {&from, &to}) {
    const MachineMapping& m = item->choices[static_cast<std::size_t>(item == &from ? from_choice : to_choice)];
    key = combine(key, static_cast<Hash>(m.start));
    for (int s : m.strides) key = combine(key, static_cast<Hash>(s));
    for (int p : m.places) key = combine(key, static_cast<Hash>(p));
  }
  key = combine(key, static_cast<Hash>(e.output) << 40 | static_cast<Hash>(e.input) << 20 | static_cast<Hash>(e.sum));
  {
    std::lock_guard lock(cache_.mutex);
    if (auto it = cache_.edges.find(key); it != cache_.edges.end()) return it->second;
  }
  std::int64_t time = movement_time(e, from_choice, to_choice);
  std::lock_guard lock(cache_.mutex);
  cache_.edges.emplace(key, time);
  return time;
}

// Stored leaves go where their users are: the storage mapping with the most of each user's operand already in place.
void MappingProblem::place_leaves(const std::vector<int>& chosen, std::vector<MachineMapping>& result) const {
  auto uses = pcg_.uses();
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (!pcg_[id].op->stored() || pcg_[id].op->name() == "boundary") continue;
    ParallelShape storage = storage_shape(pcg_, id);
    TaskGrid grid = storage_grid(storage);
    result[i] = natural_mapping(grid);
    std::vector<MachineMapping> choices =
        unity::mappings(grid, topology_, {0, static_cast<int>(topology_.device_count())});
    add_fresh(choices, of_users_families(grid, topology_));
    for (const Item& item : items_) {  // one copy or shard may sit at its user's place
      if (!grid.empty()) break;
      choices.push_back({result[item.node.index()].start, {}});
    }
    std::vector<std::pair<int, std::size_t>> users;
    for (auto [user, operand] : readers(pcg_, uses, id)) users.emplace_back(item_of_[user.index()], operand);
    std::int64_t best = -1, most = 0;  // elements that need not move
    int best_spread = -1;              // devices from copy to copy
    for (auto [user, operand] : users)
      for (const Box& box : items_[static_cast<std::size_t>(user)].inputs[operand]) most += box.elements();
    std::vector<std::vector<int>> coordinates;
    std::vector<Box> boxes;
    for (int t = 0; t < task_count(grid); ++t) {
      coordinates.push_back(grid_coordinates(grid, t));
      boxes.push_back(storage_box(storage, grid, coordinates.back()));
    }
    for (const MachineMapping& choice : choices) {
      if (best == most) break;
      if (!check_mapping(choice, grid, static_cast<int>(topology_.device_count())).ok()) continue;
      std::vector<const Box*> stored(topology_.device_count());
      for (std::size_t t = 0; t < boxes.size(); ++t) stored[choice.device(coordinates[t]).index()] = &boxes[t];
      std::int64_t local = 0;
      for (auto [user, operand] : users) {
        const Item& item = items_[static_cast<std::size_t>(user)];
        const auto& devices = item.devices[static_cast<std::size_t>(chosen[static_cast<std::size_t>(user)])];
        for (std::size_t t = 0; t < devices.size(); ++t)
          if (const Box* box = stored[devices[t].index()]) local += common_elements(*box, item.inputs[operand][t]);
      }
      // Else equal, shards are near one another and copies far apart: gathers cross fewer links than sums of gradients.
      int spread = grid.empty() || grid.back().kind != GridDim::Kind::copies ? 0 : choice.strides.back();
      if (std::pair(local, spread) > std::pair(best, best_spread))
        best = local, best_spread = spread, result[i] = choice;
    }
  }
}

std::vector<MachineMapping> MappingProblem::mappings(const std::vector<int>& chosen) const {
  std::vector<MachineMapping> result(pcg_.size());
  for (std::size_t i = 0; i < items_.size(); ++i)
    result[items_[i].node.index()] = items_[i].choices[static_cast<std::size_t>(chosen[i])];
  place_leaves(chosen, result);
  return result;
}

}  // namespace unity
