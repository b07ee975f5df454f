#include "core/plan/pipeline_order.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

#include "core/plan/task_pool.h"

namespace unity {
namespace {

// A pass of one micro-batch through one part, forward or backward.
struct Pass {
  int part = 0;  // position in the chain
  int micro = 0;
  bool backward = false;
};

// ---- what a group does, one pass after the other ----

std::vector<Pass> all_forward_then_backward(const std::vector<int>& parts, int micros) {
  std::vector<Pass> passes;
  for (int part : parts)
    for (int m = 0; m < micros; ++m) passes.push_back({part, m, false});
  for (std::size_t k = parts.size(); k-- > 0;)
    for (int m = 0; m < micros; ++m) passes.push_back({parts[k], m, true});
  return passes;
}

// `forward` and `backward` in their orders; the first `warmup` forward ones lead.
std::vector<Pass> in_turn(const std::vector<Pass>& forward, const std::vector<Pass>& backward, std::size_t warmup) {
  std::vector<Pass> passes(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(warmup));
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (warmup + i < forward.size()) passes.push_back(forward[warmup + i]);
    passes.push_back(backward[i]);
  }
  return passes;
}

std::vector<Pass> interleave(const std::vector<int>& parts, int micros, int groups, int position) {
  int v = static_cast<int>(parts.size()), total = v * micros;
  std::vector<Pass> forward, backward;
  for (int i = 0; i < total; ++i) {
    int part = i % (groups * v) / groups, micro = i / (groups * v) * groups + i % groups;
    forward.push_back({parts[static_cast<std::size_t>(part)], micro, false});
    backward.push_back({parts[static_cast<std::size_t>(v - 1 - part)], micro, true});
  }
  int warmup = v == 1 ? groups - 1 - position : 2 * (groups - 1 - position) + (v - 1) * groups;
  if (v > 1 && micros == groups) warmup = total;
  return in_turn(forward, backward, static_cast<std::size_t>(std::min(warmup, total)));
}

Result<std::vector<std::vector<Pass>>> passes_of_groups(const PipelineStages& stages, PipelineOrder order) {
  int groups = static_cast<int>(stages.groups.size()), m = stages.micro_batches;
  int most = *std::max_element(stages.part_counts.begin(), stages.part_counts.end());
  int least = *std::min_element(stages.part_counts.begin(), stages.part_counts.end());
  if (order == PipelineOrder::one_f_one_b && most > 1)
    return fail(
        "1f1b: a device holds {} parts of the graph, between which others come; expected 1 (interleaved "
        "orders several)",
        most);
  if (order == PipelineOrder::interleaved && most != least)
    return fail("interleaved: devices hold {} to {} parts of the graph, expected the same number on all", least, most);
  if (order == PipelineOrder::interleaved && most > 1 && m % groups != 0)
    return fail("interleaved: {} micro-batches, expected a multiple of the {} stages", m, groups);
  std::vector<std::vector<Pass>> passes;
  for (int g = 0; g < groups; ++g) {
    std::vector<int> parts;
    for (std::size_t k = 0; k < stages.chain.size(); ++k)
      if (stages.chain[k].group == g) parts.push_back(static_cast<int>(k));
    passes.push_back(order == PipelineOrder::gpipe ? all_forward_then_backward(parts, m)
                                                   : interleave(parts, m, groups, g));
  }
  return passes;
}

// ---- when a pass ends ----

// How long the passes of each part take, [part][backward], in FLOPs of a device that does 16 of them for each byte of
// memory traffic. Only the order of ends matters.
std::vector<std::array<std::int64_t, 2>> durations(const Program& program, const PipelineStages& stages) {
  std::map<std::tuple<int, bool, DeviceId>, double> work;
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::compute && stages.place[static_cast<std::size_t>(t.op)] >= 0 && t.micro == 0)
      work[{stages.place[static_cast<std::size_t>(t.op)], t.phase == Phase::backward, t.device}] +=
          t.flops + 16 * t.bytes;
  std::vector<std::array<std::int64_t, 2>> result(stages.chain.size(), {1, 1});
  for (const auto& [where, amount] : work) {
    std::int64_t& longest = result[static_cast<std::size_t>(std::get<0>(where))][std::get<1>(where) ? 1 : 0];
    longest = std::max(longest, static_cast<std::int64_t>(amount));
  }
  return result;
}

// The end of every pass, as [part][backward][micro-batch].
using Ends = std::vector<std::array<std::vector<std::int64_t>, 2>>;

Ends lay_out(const std::vector<std::vector<Pass>>& passes, const std::vector<std::array<std::int64_t, 2>>& duration,
             int micros) {
  constexpr std::int64_t kNever = -1;
  Ends ends(duration.size());
  for (auto& part : ends)
    for (auto& direction : part) direction.assign(static_cast<std::size_t>(micros), kNever);
  std::vector<std::size_t> next(passes.size(), 0);
  std::vector<std::int64_t> free_at(passes.size(), 0);
  std::size_t left = 0;
  for (const auto& list : passes) left += list.size();
  while (left > 0) {
    std::size_t before = left;
    for (std::size_t g = 0; g < passes.size(); ++g)
      for (; next[g] < passes[g].size(); ++next[g], --left) {
        Pass p = passes[g][next[g]];
        auto part = static_cast<std::size_t>(p.part), micro = static_cast<std::size_t>(p.micro);
        std::int64_t needs = 0;
        bool known = true;
        auto need = [&](std::size_t other, int direction) {
          std::int64_t end = ends[other][static_cast<std::size_t>(direction)][micro];
          known = known && end != kNever;
          needs = std::max(needs, end);
        };
        if (p.backward) need(part, 0);
        if (p.backward && part + 1 < ends.size()) need(part + 1, 1);
        if (!p.backward && part > 0) need(part - 1, 0);
        if (!known) break;
        free_at[g] = std::max(free_at[g], needs) + duration[part][p.backward ? 1 : 0];
        ends[part][p.backward ? 1 : 0][micro] = free_at[g];
      }
    UNITY_CHECK(left < before, "{} passes of a pipeline wait for one another", left);
  }
  return ends;
}

}  // namespace

PipelineStages find_stages(const Program& program) {
  PipelineStages stages;
  std::size_t ops = program.ops.size();
  std::vector<bool> batched(ops, false), forward(ops, false);
  for (const Task& t : program.tasks) {
    if (t.kind != TaskKind::compute) continue;
    if (t.micro > 0) batched[static_cast<std::size_t>(t.op)] = true;
    if (t.phase == Phase::forward) forward[static_cast<std::size_t>(t.op)] = true;
    stages.micro_batches = std::max(stages.micro_batches, t.micro + 1);
  }
  stages.place.assign(ops, -1);
  if (stages.micro_batches == 1) return stages;

  // Groups: devices that share a micro-batched operator.
  std::vector<std::size_t> parent(static_cast<std::size_t>(program.devices));
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  auto find = [&](std::size_t d) {
    while (parent[d] != d) d = parent[d] = parent[parent[d]];
    return d;
  };
  std::vector<int> first_device(ops, -1);
  auto counts = [&](const Task& t) {
    auto op = static_cast<std::size_t>(t.op);
    return t.kind == TaskKind::compute && t.phase == Phase::forward && batched[op];
  };
  for (const Task& t : program.tasks) {
    if (!counts(t)) continue;
    int& first = first_device[static_cast<std::size_t>(t.op)];
    if (first < 0) first = t.device.value;
    std::size_t a = find(static_cast<std::size_t>(first)), b = find(t.device.index());
    parent[std::max(a, b)] = std::min(a, b);
  }
  std::map<std::size_t, std::size_t> number;  // of a group, by its first device
  for (std::size_t op = 0; op < ops; ++op)
    if (first_device[op] >= 0) number.try_emplace(find(static_cast<std::size_t>(first_device[op])), 0);
  std::size_t groups = 0;
  for (auto& [device, index] : number) index = groups++;
  auto group_of = [&](std::size_t op) { return number.at(find(static_cast<std::size_t>(first_device[op]))); };

  // Which operators an operator's operands come from, through copies and communications.
  std::vector<std::vector<std::size_t>> sources(program.tasks.size()), before(ops);
  auto add = [](std::vector<std::size_t>& to, std::size_t x) {
    if (std::find(to.begin(), to.end(), x) == to.end()) to.push_back(x);
  };
  std::vector<std::size_t> order;  // micro-batched operators, as first computed
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& t = program.tasks[i];
    if (t.phase != Phase::forward) break;
    for (TaskId d : program.dependencies_of(t))
      for (std::size_t op : sources[d.index()]) add(sources[i], op);
    if (!counts(t)) continue;
    auto op = static_cast<std::size_t>(t.op);
    for (std::size_t source : sources[i])
      if (source != op) add(before[op], source);
    sources[i] = {op};
    add(order, op);
  }

  // Parts: passed[op][g] counts the parts of group g that lie on a way to op.
  std::vector<int> part(ops, 0), depth(ops, 0);
  std::vector<std::vector<int>> passed(ops, std::vector<int>(groups, 0));
  for (std::size_t op : order) {
    std::size_t g = group_of(op);
    for (std::size_t p : before[op]) {
      for (std::size_t h = 0; h < groups; ++h)
        passed[op][h] = std::max(passed[op][h], group_of(p) == h && g != h ? part[p] + 1 : passed[p][h]);
      part[op] = std::max(part[op], group_of(p) == g ? part[p] : passed[p][g]);
    }
  }
  // What needs nothing from the pipeline joins the part that uses it.
  std::vector<int> used_by(ops, -1);  // least part of its users; -2: users elsewhere
  for (std::size_t k = order.size(); k-- > 0;) {
    std::size_t op = order[k];
    if (used_by[op] > part[op]) part[op] = used_by[op];
    for (std::size_t p : before[op]) {
      if (group_of(p) != group_of(op)) used_by[p] = -2;
      if (used_by[p] != -2) used_by[p] = used_by[p] < 0 ? part[op] : std::min(used_by[p], part[op]);
    }
  }
  // The chain: parts by the longest way to them.
  std::map<std::pair<std::size_t, int>, int> longest;
  for (std::size_t op : order) {
    for (std::size_t p : before[op])
      depth[op] = std::max(depth[op], depth[p] + (group_of(p) != group_of(op) || part[p] != part[op] ? 1 : 0));
    int& deepest = longest[{group_of(op), part[op]}];
    deepest = std::max(deepest, depth[op]);
  }
  std::vector<std::pair<std::pair<std::size_t, int>, int>> chain(longest.begin(), longest.end());
  std::stable_sort(chain.begin(), chain.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::map<std::size_t, int> position;
  for (const auto& [where, deep] : chain) {
    auto [found, fresh] = position.try_emplace(where.first, static_cast<int>(stages.groups.size()));
    if (fresh) stages.groups.emplace_back(), stages.part_counts.push_back(0);
    stages.chain.push_back({found->second, stages.part_counts[static_cast<std::size_t>(found->second)]++});
  }
  for (std::size_t d = 0; d < parent.size(); ++d)
    if (auto found = number.find(find(d)); found != number.end())
      stages.groups[static_cast<std::size_t>(position.at(found->second))].emplace_back(static_cast<std::int64_t>(d));

  std::map<std::pair<OriginId, std::string>, int> place_of;  // gradients have the origin and label of their operator
  for (std::size_t op : order) {
    auto at = std::find_if(chain.begin(), chain.end(),
                           [&](const auto& c) { return c.first == std::pair(group_of(op), part[op]); });
    stages.place[op] = static_cast<int>(at - chain.begin());
    int& place = place_of.try_emplace({program.ops[op].origin, program.ops[op].name}, 0).first->second;
    place = std::max(place, stages.place[op]);
  }
  for (std::size_t op = 0; op < ops; ++op)
    if (auto found = place_of.find({program.ops[op].origin, program.ops[op].name});
        batched[op] && !forward[op] && found != place_of.end())
      stages.place[op] = found->second;
  return stages;
}

Result<void> order_micro_batches(Program& program, PipelineOrder order) {
  PipelineStages stages = find_stages(program);
  if (stages.micro_batches == 1) return {};
  auto passes = UNITY_TRY(passes_of_groups(stages, order));
  Ends ends = lay_out(passes, durations(program, stages), stages.micro_batches);

  // Where passes end together, those further down the pipeline come first: what they send is waited for.
  struct Key {
    std::int64_t end = 0;
    int upstream = 0;
    auto operator<=>(const Key&) const = default;
  };
  constexpr Key kLast{std::numeric_limits<std::int64_t>::max(), 0};
  auto parts = static_cast<int>(stages.chain.size());
  std::vector<PooledTask> pool = take_tasks(program);
  std::vector<Key> keys(pool.size());
  std::vector<bool> free(pool.size(), false);  // waits for nothing and belongs to no pass
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Task& t = pool[i].task;
    int place = t.kind == TaskKind::compute ? stages.place[static_cast<std::size_t>(t.op)] : -1;
    if (t.phase == Phase::update) {
      keys[i] = kLast;
      continue;
    }
    if (place >= 0) {
      const auto& part = ends[static_cast<std::size_t>(place)];
      keys[i] = {part[t.phase == Phase::backward ? 1 : 0][static_cast<std::size_t>(t.micro)], parts - place};
    }
    free[i] = place < 0 && pool[i].after.empty();
    for (std::size_t d : pool[i].after)
      if (!free[d]) keys[i] = std::max(keys[i], keys[d]);
  }
  // Such as zeros: just before their first use.
  std::vector<Key> first_use(pool.size(), kLast);
  for (std::size_t i = pool.size(); i-- > 0;) {
    if (free[i]) keys[i] = first_use[i];
    for (std::size_t d : pool[i].after) first_use[d] = std::min(first_use[d], keys[i]);
  }
  std::vector<std::size_t> sorted(pool.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  put_tasks(program, pool, sorted);
  return {};
}

}  // namespace unity
