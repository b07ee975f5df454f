#include "core/search/mapping_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>

namespace unity {
namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::size_t kMostMappings = 6;  // per operator: beyond the first few orders only rotations of the same remain

// The task of one operator as the DP sees it.
struct Item {
  NodeId node;
  TaskGrid grid;
  std::vector<std::vector<int>> coordinates;      // by task
  std::vector<std::vector<Box>> inputs, outputs;  // by operand, by task
  std::vector<int> passing;                       // by task
  std::vector<std::vector<int>> partials;         // by output, by task
  std::vector<MachineMapping> choices;
  std::vector<std::vector<DeviceId>> devices;  // by choice, by task
  std::int64_t compute = 0;                    // forward and backward of one task
  bool fixed = false;
  Hash layout = 0;  // of grid and operand boxes
};

struct Edge {
  int from = 0, output = 0, to = 0, input = 0, sum = 1;
  std::int64_t element_bytes = 4;
};

}  // namespace

MachineMapping natural_mapping(const TaskGrid& grid, int start) {
  MachineMapping m{start, std::vector<int>(grid.size())};
  int stride = 1;
  for (std::size_t g = grid.size(); g-- > 0;) m.strides[g] = stride, stride *= grid[g].degree;
  return m;
}

std::vector<MachineMapping> natural_mappings(const Pcg& pcg) {
  std::vector<MachineMapping> mappings(pcg.size());
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (!pcg.nodes()[i].is_parallelization())
      mappings[i] = natural_mapping(node_grid(pcg, NodeId(static_cast<std::int64_t>(i))));
  return mappings;
}

struct MappingSearch::Cache {
  std::mutex mutex;
  std::unordered_map<Hash, std::int64_t> edges;
};

MappingSearch::MappingSearch(const CostModel& cost, bool keep)
    : cost_(cost), cache_(std::make_unique<Cache>()), keep_(keep) {}
MappingSearch::~MappingSearch() = default;

namespace {

class Dp {
 public:
  Dp(const Pcg& pcg, const CostModel& cost, std::mutex& mutex, std::unordered_map<Hash, std::int64_t>& edge_cache)
      : pcg_(pcg), cost_(cost), topology_(cost.topology()), mutex_(mutex), edge_cache_(edge_cache) {}

  Result<MappingResult> run();
  Result<std::vector<std::vector<MachineMapping>>> all(std::int64_t most);
  Result<std::vector<std::vector<MachineMapping>>> neighbours(const std::vector<MachineMapping>& mappings);

 private:
  using Set = std::vector<int>;  // items, ascending (topological)

  Result<void> build_items();
  void build_edges();
  std::int64_t edge_cost(const Edge& e, int from_choice, int to_choice);
  std::int64_t movement_time(const Edge& e, int from_choice, int to_choice) const;
  std::int64_t solve(const Set& set);
  std::int64_t solve_connected(const Set& set);
  std::int64_t place(int item, const std::vector<Set>& rest);
  std::int64_t placement_cost(int item);
  std::vector<Set> components(const Set& set) const;
  int splitting_node(const Set& set) const;
  bool fits(const Set& set, const Resources& r) const;
  void place_leaves(MappingResult& result);
  std::vector<MachineMapping> mappings_of_choices();

  const Pcg& pcg_;
  const CostModel& cost_;
  const Topology& topology_;
  std::mutex& mutex_;
  std::unordered_map<Hash, std::int64_t>& edge_cache_;
  std::vector<Item> items_;
  std::vector<int> item_of_;  // by node
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;  // by item
  std::vector<int> chosen_;                 // by item: index into choices, -1: open
  std::vector<Resources> share_;            // by item: where it may run
  std::map<std::vector<int>, std::pair<std::int64_t, std::vector<int>>> memo_;
};

Result<void> Dp::build_items() {
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
      Task task;
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
          task.flops = 3 * flops(table, ranges);  // forward once, backward about twice
          for (const auto& boxes : item.inputs) task.bytes += 12.0 * static_cast<double>(boxes[0].elements());
          for (const auto& boxes : item.outputs) task.bytes += 12.0 * static_cast<double>(boxes[0].elements());
        }
        item.coordinates.push_back(std::move(c));
      }
      if (!item.fixed) item.compute = cost_.task_time(task, nullptr, DeviceId(0)).count;
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
  share_.assign(items_.size(), all);
  for (Item& item : items_) {
    item.choices = {natural_mapping(item.grid)};
    if (!item.fixed) {
      auto others = mappings(item.grid, topology_, all);
      if (others.size() > kMostMappings) others.resize(kMostMappings);
      if (!others.empty()) item.choices = others;
      // Serial operators of parallel branches may run anywhere: one start per outermost share.
      int tasks = task_count(item.grid);
      if (2 * tasks <= all.count) item.choices.push_back(natural_mapping(item.grid, all.count / 2));
    }
    for (const MachineMapping& m : item.choices) {
      std::vector<DeviceId> devices;
      for (const auto& c : item.coordinates) devices.push_back(m.device(c));
      item.devices.push_back(std::move(devices));
    }
  }
  return {};
}

void Dp::build_edges() {
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

// What must move, box by box: the slowest device's missing bytes over its route, and the all-reduce of summands.
std::int64_t Dp::movement_time(const Edge& e, int from_choice, int to_choice) const {
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
  std::int64_t slowest = 0;
  for (std::size_t t = 0; t < used.size(); ++t) {
    std::int64_t local = 0;
    int nearest = -1;
    DeviceId source;
    for (std::size_t s = 0; s < held.size(); ++s) {
      bool same = e.sum > 1 || partials[s] == (partials.size() > 1 ? to.passing[t] : 0) || to.passing[t] == 0;
      if (!same) continue;
      std::int64_t overlap = intersect(held[s], used[t]).elements();
      if (overlap == 0) continue;
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

std::int64_t Dp::edge_cost(const Edge& e, int from_choice, int to_choice) {
  const Item& from = items_[static_cast<std::size_t>(e.from)];
  const Item& to = items_[static_cast<std::size_t>(e.to)];
  Hash key = combine(from.layout, to.layout);
  for (const Item* item : {&from, &to}) {
    const MachineMapping& m = item->choices[static_cast<std::size_t>(item == &from ? from_choice : to_choice)];
    key = combine(key, static_cast<Hash>(m.start));
    for (int s : m.strides) key = combine(key, static_cast<Hash>(s));
  }
  key = combine(key, static_cast<Hash>(e.output) << 40 | static_cast<Hash>(e.input) << 20 | static_cast<Hash>(e.sum));
  {
    std::lock_guard lock(mutex_);
    if (auto it = edge_cache_.find(key); it != edge_cache_.end()) return it->second;
  }
  std::int64_t time = movement_time(e, from_choice, to_choice);
  std::lock_guard lock(mutex_);
  edge_cache_.emplace(key, time);
  return time;
}

std::int64_t Dp::placement_cost(int item) {
  auto i = static_cast<std::size_t>(item);
  std::int64_t cost = items_[i].compute;
  for (int number : edges_of_[i]) {
    const Edge& e = edges_[static_cast<std::size_t>(number)];
    int a = chosen_[static_cast<std::size_t>(e.from)], b = chosen_[static_cast<std::size_t>(e.to)];
    if (a >= 0 && b >= 0) cost += edge_cost(e, a, b);
  }
  return cost;
}

std::vector<Dp::Set> Dp::components(const Set& set) const {
  std::map<int, int> parent;
  for (int i : set) parent[i] = i;
  auto find = [&](int i) {
    while (parent[i] != i) i = parent[i];
    return i;
  };
  for (int i : set)
    for (int number : edges_of_[static_cast<std::size_t>(i)]) {
      const Edge& e = edges_[static_cast<std::size_t>(number)];
      int other = e.from == i ? e.to : e.from;
      if (!parent.contains(other)) continue;
      int a = find(i), b = find(other);
      if (a != b) parent[std::max(a, b)] = std::min(a, b);
    }
  std::map<int, Set> groups;
  for (int i : set) groups[find(i)].push_back(i);
  std::vector<Set> result;
  for (auto& [root, group] : groups) result.push_back(std::move(group));
  return result;
}

// The middle one of the nodes that no edge within the set jumps over: best of those that everything before leads to and
// everything after comes from (else branches that start or end apart would be pulled into the sequence); -1 for none.
int Dp::splitting_node(const Set& set) const {
  std::map<int, int> rank;
  for (std::size_t r = 0; r < set.size(); ++r) rank[set[r]] = static_cast<int>(r);
  std::vector<int> jumps(set.size() + 1, 0);
  std::vector<bool> entered(set.size(), false), left(set.size(), false);
  for (int i : set)
    for (int number : edges_of_[static_cast<std::size_t>(i)]) {
      const Edge& e = edges_[static_cast<std::size_t>(number)];
      if (e.from != i || !rank.contains(e.to)) continue;
      ++jumps[static_cast<std::size_t>(rank[e.from]) + 1];
      --jumps[static_cast<std::size_t>(rank[e.to])];
      left[static_cast<std::size_t>(rank[e.from])] = entered[static_cast<std::size_t>(rank[e.to])] = true;
    }
  std::size_t last_source = 0, first_sink = set.size() - 1;
  for (std::size_t r = 0; r < set.size(); ++r)
    if (!entered[r]) last_source = r;
  for (std::size_t r = set.size(); r-- > 0;)
    if (!left[r]) first_sink = r;
  int covered = 0, best = -1, best_distance = std::numeric_limits<int>::max();
  for (std::size_t r = 0; r < set.size(); ++r) {
    covered += jumps[r];
    int distance = std::abs(static_cast<int>(set.size()) / 2 - static_cast<int>(r));
    if (r < last_source || r > first_sink) distance += static_cast<int>(set.size());
    if (covered == 0 && distance < best_distance) best = set[r], best_distance = distance;
  }
  return best;
}

bool Dp::fits(const Set& set, const Resources& r) const {
  for (int i : set) {
    const Item& item = items_[static_cast<std::size_t>(i)];
    if (item.fixed || task_count(item.grid) > r.count) return false;
  }
  return true;
}

// The best cost of the open items of `set`, leaving its choices in chosen_. Memoised on the choices of its neighbours.
std::int64_t Dp::solve(const Set& set) {
  if (set.empty()) return 0;
  std::vector<int> key = {static_cast<int>(set.size()), share_[static_cast<std::size_t>(set[0])].first,
                          share_[static_cast<std::size_t>(set[0])].count};
  std::set<int> members(set.begin(), set.end()), around;
  key.insert(key.end(), set.begin(), set.end());
  for (int i : set)
    for (int number : edges_of_[static_cast<std::size_t>(i)]) {
      const Edge& e = edges_[static_cast<std::size_t>(number)];
      for (int other : {e.from, e.to})
        if (!members.contains(other) && chosen_[static_cast<std::size_t>(other)] >= 0) around.insert(other);
    }
  for (int other : around) key.push_back(other), key.push_back(chosen_[static_cast<std::size_t>(other)]);
  auto [it, inserted] = memo_.try_emplace(key, kInfinite, std::vector<int>());
  if (!inserted) {
    for (std::size_t k = 0; k < it->second.second.size(); ++k)
      chosen_[static_cast<std::size_t>(set[k])] = it->second.second[k];
    return it->second.first;
  }
  std::vector<Set> parts = components(set);
  std::int64_t best;
  if (parts.size() == 1) {
    best = solve_connected(set);
  } else {
    best = 0;
    std::vector<std::int64_t> costs;
    for (const Set& part : parts) costs.push_back(solve(part)), best += costs.back();
    std::vector<int> sequential;
    for (int i : set) sequential.push_back(chosen_[static_cast<std::size_t>(i)]);
    // Two halves of the machine at once: the heaviest part on one, the rest on the other.
    Resources all = share_[static_cast<std::size_t>(set[0])];
    Resources left{all.first, all.count / 2}, right{all.first + all.count / 2, all.count - all.count / 2};
    auto heaviest = static_cast<std::size_t>(std::max_element(costs.begin(), costs.end()) - costs.begin());
    bool possible = all.count >= 2 && fits(parts[heaviest], left);
    Set rest;
    for (std::size_t p = 0; p < parts.size(); ++p)
      if (p != heaviest)
        rest.insert(rest.end(), parts[p].begin(), parts[p].end()), possible = possible && fits(parts[p], right);
    if (possible) {
      std::sort(rest.begin(), rest.end());
      for (int i : set) chosen_[static_cast<std::size_t>(i)] = -1;
      for (int i : parts[heaviest]) share_[static_cast<std::size_t>(i)] = left;
      for (int i : rest) share_[static_cast<std::size_t>(i)] = right;
      std::int64_t at_once = std::max(solve(parts[heaviest]), solve(rest));
      for (int i : set) share_[static_cast<std::size_t>(i)] = all;
      if (at_once < best)
        best = at_once;
      else
        for (std::size_t k = 0; k < set.size(); ++k) chosen_[static_cast<std::size_t>(set[k])] = sequential[k];
    }
  }
  auto& entry = memo_[key];
  entry.first = best;
  entry.second.clear();
  for (int i : set) entry.second.push_back(chosen_[static_cast<std::size_t>(i)]);
  return best;
}

std::int64_t Dp::solve_connected(const Set& set) {
  int pivot = splitting_node(set);
  if (pivot < 0) {
    pivot = *std::max_element(set.begin(), set.end(), [&](int a, int b) {
      return edges_of_[static_cast<std::size_t>(a)].size() < edges_of_[static_cast<std::size_t>(b)].size();
    });
  }
  Set before, after;
  for (int i : set)
    if (i != pivot) (i < pivot ? before : after).push_back(i);
  // Without the pivot the two sides are independent only if no edge joins them.
  Set rest = before;
  rest.insert(rest.end(), after.begin(), after.end());
  auto p = static_cast<std::size_t>(pivot);
  Resources share = share_[p];
  std::int64_t best = kInfinite;
  std::vector<int> best_choice;
  for (std::size_t c = 0; c < items_[p].choices.size(); ++c) {
    bool inside = std::all_of(items_[p].devices[c].begin(), items_[p].devices[c].end(), [&](DeviceId d) {
      return d.value >= share.first && d.value < share.first + share.count;
    });
    if (!inside && !items_[p].fixed) continue;
    for (int i : set) chosen_[static_cast<std::size_t>(i)] = -1;
    chosen_[p] = static_cast<int>(c);
    std::int64_t cost = placement_cost(pivot);
    if (cost < best) {
      if (splitting_node(set) == pivot)
        cost += solve(before) + solve(after);
      else
        cost += solve(rest);
    }
    if (cost < best) {
      best = cost;
      best_choice.clear();
      for (int i : set) best_choice.push_back(chosen_[static_cast<std::size_t>(i)]);
    }
  }
  for (std::size_t k = 0; k < set.size(); ++k)
    chosen_[static_cast<std::size_t>(set[k])] = best_choice.empty() ? 0 : best_choice[k];
  return best;
}

// Stored leaves go where their users are: the storage mapping with the most of each user's operand already in place.
void Dp::place_leaves(MappingResult& result) {
  auto uses = pcg_.uses();
  for (std::size_t i = 0; i < pcg_.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    if (!pcg_[id].op->stored() || pcg_[id].op->name() == "boundary") continue;
    ParallelShape storage = storage_shape(pcg_, id);
    TaskGrid grid = storage_grid(storage);
    result.mappings[i] = natural_mapping(grid);
    std::vector<MachineMapping> choices = mappings(grid, topology_, {0, static_cast<int>(topology_.device_count())});
    for (const Item& item : items_) {  // one copy or shard may sit at its user's place
      if (!grid.empty()) break;
      choices.push_back({result.mappings[item.node.index()].start, {}});
    }
    // Users through any parallelization operators.
    std::vector<std::pair<int, int>> users;
    std::vector<NodeId> open = {id};
    while (!open.empty()) {
      NodeId at = open.back();
      open.pop_back();
      for (const Pcg::Use& u : uses[at.index()]) {
        if (pcg_[u.user].is_parallelization())
          open.push_back(u.user);
        else
          users.emplace_back(item_of_[u.user.index()], u.operand);
      }
    }
    std::int64_t best = -1;
    for (const MachineMapping& choice : choices) {
      if (!check_mapping(choice, grid, static_cast<int>(topology_.device_count())).ok()) continue;
      std::map<DeviceId, Box> stored;
      for (int t = 0; t < task_count(grid); ++t) {
        std::vector<int> c = grid_coordinates(grid, t);
        stored.emplace(choice.device(c), storage_box(storage, grid, c));
      }
      std::int64_t local = 0;
      for (auto [user, operand] : users) {
        const Item& item = items_[static_cast<std::size_t>(user)];
        const auto& devices = item.devices[static_cast<std::size_t>(chosen_[static_cast<std::size_t>(user)])];
        for (std::size_t t = 0; t < devices.size(); ++t)
          if (auto it = stored.find(devices[t]); it != stored.end())
            local += intersect(it->second, item.inputs[static_cast<std::size_t>(operand)][t]).elements();
      }
      if (local > best) best = local, result.mappings[i] = choice;
    }
  }
}

Result<MappingResult> Dp::run() {
  UNITY_TRY_VOID(build_items());
  build_edges();
  chosen_.assign(items_.size(), -1);
  Set open;
  MappingResult result;
  result.mappings.resize(pcg_.size());
  std::int64_t cost = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].fixed || items_[i].choices.size() == 1)
      chosen_[i] = 0;
    else
      open.push_back(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (chosen_[i] < 0) continue;
    cost += items_[i].compute;
    for (int number : edges_of_[i]) {
      const Edge& e = edges_[static_cast<std::size_t>(number)];
      if (e.from == static_cast<int>(i) && chosen_[static_cast<std::size_t>(e.to)] >= 0) cost += edge_cost(e, 0, 0);
    }
  }
  cost += solve(open);
  for (std::size_t i = 0; i < items_.size(); ++i)
    result.mappings[items_[i].node.index()] = items_[i].choices[static_cast<std::size_t>(chosen_[i])];
  place_leaves(result);
  result.estimate = {cost};
  return result;
}

// Whether the machine stays the same when any devices change places: all routes alike, through no common link.
bool all_alike(const Topology& t) {
  std::set<LinkId> used;
  std::set<std::tuple<std::size_t, std::int64_t, double>> seen;
  for (std::size_t a = 0; a < t.device_count(); ++a)
    for (std::size_t b = 0; b < t.device_count(); ++b) {
      if (a == b) continue;
      DeviceId from(static_cast<std::int64_t>(a)), to(static_cast<std::int64_t>(b));
      for (LinkId l : t.route(from, to))
        if (!used.insert(l).second) return false;
      seen.insert({t.device(from).spec, t.latency(from, to).count, t.bandwidth(from, to).rate});
    }
  return seen.size() <= 1 && t.physical_devices.size() == t.device_count();
}

Result<std::vector<std::vector<MachineMapping>>> Dp::all(std::int64_t most) {
  UNITY_TRY_VOID(build_items());
  std::int64_t combinations = 1;
  for (const Item& item : items_) {
    combinations *= static_cast<std::int64_t>(item.choices.size());
    if (combinations > most) return fail("more than {} mappings", most);
  }
  bool alike = all_alike(topology_);
  std::set<std::vector<std::int64_t>> seen;
  std::vector<std::vector<MachineMapping>> found;
  for (std::int64_t number = 0; number < combinations; ++number) {
    chosen_.clear();
    std::int64_t rest = number;
    std::map<DeviceId, std::int64_t> names;  // in the order in which devices are met
    std::vector<std::int64_t> places;
    for (const Item& item : items_) {
      auto choices = static_cast<std::int64_t>(item.choices.size());
      chosen_.push_back(static_cast<int>(rest % choices));
      rest /= choices;
      for (DeviceId d : item.devices[static_cast<std::size_t>(chosen_.back())])
        places.push_back(alike ? names.try_emplace(d, static_cast<std::int64_t>(names.size())).first->second : d.value);
    }
    if (!seen.insert(places).second) continue;
    found.push_back(mappings_of_choices());
  }
  return found;
}

Result<std::vector<std::vector<MachineMapping>>> Dp::neighbours(const std::vector<MachineMapping>& mappings) {
  UNITY_TRY_VOID(build_items());
  chosen_.clear();
  for (const Item& item : items_) {
    auto found = std::find(item.choices.begin(), item.choices.end(), mappings[item.node.index()]);
    chosen_.push_back(found == item.choices.end() ? 0 : static_cast<int>(found - item.choices.begin()));
  }
  std::vector<std::vector<MachineMapping>> found;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    int was = chosen_[i];
    for (int c = 0; c < static_cast<int>(items_[i].choices.size()); ++c)
      if (c != was) chosen_[i] = c, found.push_back(mappings_of_choices());
    chosen_[i] = was;
  }
  std::vector<int> given = chosen_;
  std::size_t most = 0;
  for (const Item& item : items_) most = std::max(most, item.choices.size());
  for (std::size_t c = 0; c < most; ++c) {
    chosen_ = given;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (c >= items_[i].choices.size() || chosen_[i] == static_cast<int>(c)) continue;
      chosen_[i] = static_cast<int>(c);
      if (i > 0) found.push_back(mappings_of_choices());
    }
  }
  return found;
}

std::vector<MachineMapping> Dp::mappings_of_choices() {
  MappingResult result;
  result.mappings.resize(pcg_.size());
  for (std::size_t i = 0; i < items_.size(); ++i)
    result.mappings[items_[i].node.index()] = items_[i].choices[static_cast<std::size_t>(chosen_[i])];
  place_leaves(result);
  return std::move(result.mappings);
}

}  // namespace

Result<std::vector<std::vector<MachineMapping>>> MappingSearch::all(const Pcg& pcg, std::int64_t most) const {
  return Dp(pcg, cost_, cache_->mutex, cache_->edges).all(most);
}

Result<std::vector<std::vector<MachineMapping>>> MappingSearch::neighbours(
    const Pcg& pcg, const std::vector<MachineMapping>& mappings) const {
  return Dp(pcg, cost_, cache_->mutex, cache_->edges).neighbours(mappings);
}

Result<MappingResult> MappingSearch::run(const Pcg& pcg) const {
  if (keep_) return Dp(pcg, cost_, cache_->mutex, cache_->edges).run();
  Cache own;
  return Dp(pcg, cost_, own.mutex, own.edges).run();
}

}  // namespace unity
