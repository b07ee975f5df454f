#include "core/search/mapping_problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/machine/mapping_families.h"
#include "core/ops/box_index.h"
#include "core/search/mapping_shares.h"
#include "core/search/through_layouts.h"

namespace unity {
namespace {

constexpr std::size_t kMostBoxesKept = 2'000'000;  // some 120 bytes each
constexpr std::size_t kMostMappings = 6;  // per operator: beyond the first few orders only rotations of the same remain
constexpr std::size_t kMostInShare = 2;   // of those, from where a share begins that is not the first

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

// From each device on that has enough behind it: there a share may begin.
std::vector<MachineMapping> in_shares(const TaskGrid& grid, const Topology& topology) {
  std::vector<MachineMapping> found;
  const auto devices = static_cast<int>(topology.device_count());
  if (devices > kMostShared) return found;
  for (int first = 1; first + task_count(grid) <= devices; ++first) {
    std::vector<MachineMapping> there = mappings(grid, topology, {first, devices - first});
    if (there.size() > kMostInShare) there.resize(kMostInShare);
    found.insert(found.end(), there.begin(), there.end());
  }
  return found;
}

}  // namespace

std::size_t OperatorTasks::boxes() const { return coordinates.size() * (inputs.size() + outputs.size()); }

bool OperatorTasks::may_choose(std::size_t choice, const Resources& share) const {
  if (fixed) return true;
  const Resources& at = span[choice];
  return at.first >= share.first && at.first + at.count <= share.first + share.count &&
         (choice < general || choices[choice].start == share.first);
}

Result<void> MappingProblem::build() {
  find_neighbourhoods();
  UNITY_TRY_VOID(build_items());
  build_edges();
  return {};
}

Result<void> MappingProblem::build_items() {
  item_of_.assign(pcg_.size(), -1);
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    const Node& n = pcg_[id];
    if (n.is_parallelization() || (n.is_leaf() && n.op->name() != "boundary")) continue;
    item_of_[i] = static_cast<int>(items_.size());
    items_.push_back({id, UNITY_TRY(tasks_of(id))});
  }
  return {};
}

// Blocks of a network repeat, and graphs of a search differ in few operators: the tasks of all are made once.
Result<const MappingProblem::Tasks*> MappingProblem::tasks_of(NodeId id) {
  const Node& n = pcg_[id];
  bool boundary = n.op->name() == "boundary";
  std::vector<ParallelShape> operands;
  if (boundary) operands = {storage_shape(pcg_, id)};
  for (ValueRef v : n.inputs) operands.push_back(pcg_.shape(v));
  Hash key = combine(hash_attributes(n.attributes), std::hash<const Operator*>()(n.op));
  key = combine(key, static_cast<Hash>(shares_));
  for (const ParallelShape& s : operands) key = combine(key, hash_shape(s));
  auto same = [&](const std::shared_ptr<const Tasks>& t) {
    return t->op == n.op && t->shares == shares_ && t->attributes == n.attributes && t->operands == operands;
  };
  std::vector<std::shared_ptr<const Tasks>>& mine = tasks_[key];
  if (auto found = std::find_if(mine.begin(), mine.end(), same); found != mine.end()) return found->get();
  {
    std::lock_guard lock(cache_.mutex);
    std::vector<std::shared_ptr<const Tasks>>& known = cache_.tasks[key];
    if (auto found = std::find_if(known.begin(), known.end(), same); found != known.end())
      return mine.emplace_back(*found).get();
  }
  auto tasks = std::make_shared<Tasks>();
  tasks->op = n.op, tasks->shares = shares_, tasks->attributes = n.attributes, tasks->operands = std::move(operands);
  tasks->fixed = boundary || n.op->name() == "deliver";
  if (boundary) {
    boundary_tasks(id, *tasks);
  } else {
    if (int count = node_sharding(pcg_, id).tasks(); count > static_cast<int>(topology_.device_count()))
      return fail("{} ({}) has {} tasks, more than the {} devices", n.name, n.op->name(), count,
                  topology_.device_count());
    operator_tasks(id, *tasks);
  }
  tasks->layout = mix(task_count(tasks->grid));
  auto add = [&](auto n) { tasks->layout = combine(tasks->layout, static_cast<Hash>(n)); };
  for (const auto* boxes_of : {&tasks->inputs, &tasks->outputs}) {
    add(boxes_of->size());
    for (const auto& boxes : *boxes_of) {
      add(boxes.size());
      for (const Box& b : boxes) {
        add(b.rank());
        for (std::size_t d = 0; d < b.rank(); ++d) add(b.offset[d]), add(b.extent[d]);
      }
    }
  }
  for (const GridDim& g : tasks->grid)
    tasks->layout = combine(
        tasks->layout, static_cast<Hash>(g.kind) << 32 | static_cast<Hash>(g.axis) << 16 | static_cast<Hash>(g.degree));
  choose_from(*tasks);
  std::lock_guard lock(cache_.mutex);
  if (cache_.boxes > kMostBoxesKept) cache_.tasks.clear(), cache_.boxes = 0;
  cache_.boxes += tasks->boxes();
  cache_.tasks[key].push_back(tasks);
  return mine.emplace_back(std::move(tasks)).get();
}

void MappingProblem::boundary_tasks(NodeId id, Tasks& tasks) const {
  ParallelShape storage = storage_shape(pcg_, id);
  tasks.grid = storage_grid(storage);
  tasks.outputs.resize(1), tasks.partials.resize(1);
  for (int t = 0; t < task_count(tasks.grid); ++t) {
    tasks.coordinates.push_back(grid_coordinates(tasks.grid, t));
    tasks.outputs[0].push_back(storage_box(storage, tasks.grid, tasks.coordinates.back()));
    tasks.partials[0].push_back(0), tasks.passing.push_back(0);
  }
}

void MappingProblem::operator_tasks(NodeId id, Tasks& tasks) const {
  const AxisTable& table = *pcg_[id].table;
  Sharding whole = node_sharding(pcg_, id);
  tasks.grid = task_grid(table, whole);
  tasks.inputs.resize(table.inputs.size()), tasks.outputs.resize(table.outputs.size()),
      tasks.partials.resize(table.outputs.size());
  std::fill(whole.micro.begin(), whole.micro.end(), 1);  // they share their device: their union is what matters here
  for (int t = 0; t < task_count(tasks.grid); ++t) {
    std::vector<int> c = grid_coordinates(tasks.grid, t);
    std::vector<Range> ranges = task_ranges(table, whole, tasks.grid, c);
    for (std::size_t k = 0; k < table.inputs.size(); ++k)
      tasks.inputs[k].push_back(operand_box(table, table.inputs[k], ranges));
    for (std::size_t k = 0; k < table.outputs.size(); ++k) {
      tasks.outputs[k].push_back(operand_box(table, table.outputs[k], ranges));
      tasks.partials[k].push_back(output_partial(table, tasks.grid, c, k));
    }
    tasks.passing.push_back(passing_partial(tasks.grid, c));
    if (t == 0) {
      tasks.first.flops = 3 * flops(table, ranges);  // forward once, backward about twice
      for (const auto& boxes : tasks.inputs) tasks.first.bytes += 12.0 * static_cast<double>(boxes[0].elements());
      for (const auto& boxes : tasks.outputs) tasks.first.bytes += 12.0 * static_cast<double>(boxes[0].elements());
    }
    tasks.coordinates.push_back(std::move(c));
  }
}

void MappingProblem::choose_from(Tasks& tasks) const {
  Resources all{0, static_cast<int>(topology_.device_count())};
  tasks.choices = {natural_mapping(tasks.grid)};
  if (!tasks.fixed) {
    auto others = unity::mappings(tasks.grid, topology_, all);
    if (others.size() > kMostMappings) others.resize(kMostMappings);
    if (!others.empty()) tasks.choices = others;
    // Serial operators of parallel branches may run anywhere: one start per outermost share.
    if (2 * task_count(tasks.grid) <= all.count) tasks.choices.push_back(natural_mapping(tasks.grid, all.count / 2));
    add_fresh(tasks.choices, on_each_kind(tasks.grid, topology_));
    add_fresh(tasks.choices, of_users_families(tasks.grid, topology_));
  }
  tasks.general = tasks.choices.size();
  if (!tasks.fixed && shares_ == Shares::all) add_fresh(tasks.choices, in_shares(tasks.grid, topology_));
  std::vector<std::int64_t> time_on(topology_.specs.size(), -1);  // of a task, by kind of device
  for (const MachineMapping& m : tasks.choices) {
    std::vector<DeviceId> devices;
    for (const auto& c : tasks.coordinates) devices.push_back(m.device(c));
    std::int64_t slowest = 0;
    for (DeviceId d : devices) {
      std::int64_t& time = time_on[topology_.device(d).spec];
      if (time < 0) time = tasks.fixed ? 0 : cost_.task_time(tasks.first, nullptr, d).count;
      slowest = std::max(slowest, time);
    }
    auto [low, high] = std::minmax_element(devices.begin(), devices.end());
    tasks.span.push_back({low->value, high->value - low->value + 1});
    tasks.compute.push_back(slowest);
    tasks.devices.push_back(std::move(devices));
  }
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
  const Tasks &from = *items_[static_cast<std::size_t>(e.from)].tasks,
              &to = *items_[static_cast<std::size_t>(e.to)].tasks;
  auto [it, fresh] = overlaps_.try_emplace({&from, e.output, &to, e.input});
  Overlaps& found = it->second;
  if (!fresh) return found;
  BoxIndex held(from.outputs[static_cast<std::size_t>(e.output)]), wanted(to.inputs[static_cast<std::size_t>(e.input)]);
  found.wanted = wanted.numbers(), found.held = held.numbers();
  found.holders.resize(held.boxes().size());
  for (std::size_t s = 0; s < found.held.size(); ++s)
    found.holders[static_cast<std::size_t>(found.held[s])].push_back(static_cast<int>(s));
  for (const Box& box : wanted.boxes()) {
    found.common.emplace_back();
    for (int h : held.meeting(box))
      found.common.back().emplace_back(h, common_elements(held.boxes()[static_cast<std::size_t>(h)], box));
  }
  return found;
}

// The devices of the part that a device is in, from the innermost level to the whole machine.
void MappingProblem::find_neighbourhoods() {
  auto devices = static_cast<int>(topology_.device_count());
  for (std::size_t level = topology_.levels.size(); level-- > 1;) {
    auto& ranges = neighbourhoods_.emplace_back();
    for (int d = 0; d < devices; ++d) {
      bool fresh = d == 0 || topology_.part(level - 1, DeviceId(d)) != topology_.part(level - 1, DeviceId(d - 1));
      ranges.emplace_back(fresh ? d : ranges.back().first, devices);
    }
    for (int d = devices - 1; d-- > 0;)
      if (auto next = static_cast<std::size_t>(d) + 1; ranges[next].first == static_cast<int>(next))
        ranges[static_cast<std::size_t>(d)].second = static_cast<int>(next);
      else
        ranges[static_cast<std::size_t>(d)].second = ranges[next].second;
  }
  neighbourhoods_.emplace_back(topology_.device_count(), std::pair(0, devices));
}

// What must move, box by box: the slowest device's missing bytes over its route, and the all-reduce of summands.
std::int64_t MappingProblem::movement_time(const Edge& e, int from_choice, int to_choice) const {
  const Tasks& from = *items_[static_cast<std::size_t>(e.from)].tasks;
  const Tasks& to = *items_[static_cast<std::size_t>(e.to)].tasks;
  const auto& held_at = from.devices[static_cast<std::size_t>(from_choice)];
  const auto& used_at = to.devices[static_cast<std::size_t>(to_choice)];
  const auto& held = from.outputs[static_cast<std::size_t>(e.output)];
  const auto& used = to.inputs[static_cast<std::size_t>(e.input)];
  const auto& partials = from.partials[static_cast<std::size_t>(e.output)];
  const Overlaps& common = overlaps(e);
  std::int64_t time = 0;
  for (std::size_t box = 0; e.sum > 1 && box < common.holders.size(); ++box) {
    std::vector<std::pair<int, DeviceId>> summands;  // by the sum they are of
    for (int s : common.holders[box])
      summands.emplace_back(partials[static_cast<std::size_t>(s)] / e.sum, held_at[static_cast<std::size_t>(s)]);
    std::sort(summands.begin(), summands.end());
    summands.erase(std::unique(summands.begin(), summands.end()), summands.end());
    const std::int64_t bytes = held[static_cast<std::size_t>(common.holders[box][0])].elements() * e.element_bytes;
    for (std::size_t first = 0, end = 0; first < summands.size(); first = end) {
      std::vector<DeviceId> group;
      for (; end < summands.size() && summands[end].first == summands[first].first; ++end)
        group.push_back(summands[end].second);
      if (group.size() < 2) continue;
      CollectiveKind kind = used.size() > 1 ? CollectiveKind::all_reduce : CollectiveKind::reduce;
      time = std::max(time, cost_.collective_time(kind, group, Bytes{bytes}).count);
    }
  }
  std::vector<int> held_on(topology_.device_count(), -1);  // by device: a task of the producer
  for (std::size_t s = 0; s < held.size(); ++s) held_on[held_at[s].index()] = static_cast<int>(s);
  std::int64_t slowest = 0;
  for (std::size_t t = 0; t < used.size(); ++t) {
    auto same = [&](std::size_t s) {
      return e.sum > 1 || partials[s] == (partials.size() > 1 ? to.passing[t] : 0) || to.passing[t] == 0;
    };
    int own = held_on[used_at[t].index()];
    if (own >= 0 && same(static_cast<std::size_t>(own)) && held[static_cast<std::size_t>(own)].contains(used[t]))
      continue;
    const auto& boxes = common.common[static_cast<std::size_t>(common.wanted[t])];
    auto overlap = [&](std::size_t s) -> std::int64_t {
      if (!same(s)) return 0;
      auto box = std::lower_bound(boxes.begin(), boxes.end(), std::pair(common.held[s], std::int64_t{0}));
      return box != boxes.end() && box->first == common.held[s] ? box->second : 0;
    };
    std::int64_t missing = used[t].elements() - (own >= 0 ? overlap(static_cast<std::size_t>(own)) : 0);
    if (missing <= 0) continue;
    std::size_t holders = 0;
    for (auto [box, elements] : boxes) holders += common.holders[static_cast<std::size_t>(box)].size();
    int source_task = -1;  // of the nearest that hold some of it, the first
    for (std::size_t level = 0; level < neighbourhoods_.size() && source_task < 0; ++level) {
      auto [begin, end] = neighbourhoods_[level][used_at[t].index()];
      if (holders < static_cast<std::size_t>(end - begin)) {
        int nearest = -1;
        for (auto [box, elements] : boxes)
          for (int s : common.holders[static_cast<std::size_t>(box)]) {
            DeviceId at = held_at[static_cast<std::size_t>(s)];
            if (at == used_at[t] || !same(static_cast<std::size_t>(s))) continue;
            if (int d = topology_.distance_level(at, used_at[t]); d > nearest) nearest = d, source_task = s;
          }
        break;
      }
      for (int d = begin; d < end; ++d) {
        int s = held_on[static_cast<std::size_t>(d)];
        if (s < 0 || d == used_at[t].value || overlap(static_cast<std::size_t>(s)) == 0) continue;
        auto before = [&](int x, int y) {
          return std::pair(common.held[static_cast<std::size_t>(x)], x) <
                 std::pair(common.held[static_cast<std::size_t>(y)], y);
        };
        if (source_task < 0 || before(s, source_task)) source_task = s;
      }
    }
    if (source_task < 0) continue;
    DeviceId source = held_at[static_cast<std::size_t>(source_task)];
    double seconds = static_cast<double>(missing * e.element_bytes) / topology_.bandwidth(source, used_at[t]).rate;
    slowest = std::max(slowest, from_seconds(seconds).count + topology_.latency(source, used_at[t]).count);
  }
  return 2 * (time + slowest);  // and its adjoint
}

std::int64_t MappingProblem::edge_cost(const Edge& e, int from_choice, int to_choice) const {
  const Tasks& from = *items_[static_cast<std::size_t>(e.from)].tasks;
  const Tasks& to = *items_[static_cast<std::size_t>(e.to)].tasks;
  Hash key = combine(from.layout, to.layout);
  for (auto [tasks, choice] : {std::pair(&from, from_choice), std::pair(&to, to_choice)}) {
    const MachineMapping& m = tasks->choices[static_cast<std::size_t>(choice)];
    key = combine(key, static_cast<Hash>(m.start));
    for (int s : m.strides) key = combine(key, static_cast<Hash>(s));
    key = combine(key, m.places.size());
    for (int p : m.places) key = combine(key, static_cast<Hash>(p));
  }
  key = combine(key, static_cast<Hash>(e.element_bytes));
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
    std::vector<std::pair<int, std::size_t>> users;
    for (auto [user, operand] : readers(pcg_, uses, id)) {
      users.emplace_back(item_of_[user.index()], operand);
      MachineMapping there = result[user.index()];  // where its parts sit at their user's places, wherever these are
      if (grid.empty()) there = {there.start, {}};
      if (there.strides.size() == grid.size()) add_fresh(choices, {std::move(there)});
    }
    std::int64_t best = -1, most = 0;  // elements that need not move
    int best_spread = -1;              // devices from copy to copy
    for (auto [user, operand] : users)
      for (const Box& box : items_[static_cast<std::size_t>(user)].tasks->inputs[operand]) most += box.elements();
    std::vector<Box> boxes;
    for (int t = 0; t < task_count(grid); ++t) boxes.push_back(storage_box(storage, grid, grid_coordinates(grid, t)));
    for (const MachineMapping& choice : choices) {
      if (best == most) break;
      if (!check_mapping(choice, grid, static_cast<int>(topology_.device_count())).ok()) continue;
      std::vector<const Box*> stored(topology_.device_count());
      std::vector<DeviceId> places = choice.devices(grid);
      for (std::size_t t = 0; t < boxes.size(); ++t) stored[places[t].index()] = &boxes[t];
      std::int64_t local = 0;
      for (auto [user, operand] : users) {
        const Tasks& tasks = *items_[static_cast<std::size_t>(user)].tasks;
        const auto& devices = tasks.devices[static_cast<std::size_t>(chosen[static_cast<std::size_t>(user)])];
        for (std::size_t t = 0; t < devices.size(); ++t)
          if (const Box* box = stored[devices[t].index()]) local += common_elements(*box, tasks.inputs[operand][t]);
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
    result[items_[i].node.index()] = items_[i].tasks->choices[static_cast<std::size_t>(chosen[i])];
  place_leaves(chosen, result);
  return result;
}

}  // namespace unity
