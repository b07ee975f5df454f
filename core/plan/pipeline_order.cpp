#include "core/plan/pipeline_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/plan/overlap.h"

namespace unity {
namespace {

// Of zero-bubble orders, gradients of weights are a pass of their own; of others they are of the backward pass.
enum class Direction : std::uint8_t { forward, backward, weights };
constexpr std::size_t kDirections = 3;
constexpr std::size_t place_of(Direction d) { return static_cast<std::size_t>(d); }

// A pass of a micro-batch, or of those that are taken at once, through one part.
struct Pass {
  int part = 0;   // position in the chain
  int micro = 0;  // counted on from iteration to iteration
  Direction direction = Direction::forward;
};

// ---- what a group does, one pass after the other ----

std::vector<Pass> all_forward_then_backward(const std::vector<int>& parts, int micros) {
  std::vector<Pass> passes;
  for (int part : parts)
    for (int m = 0; m < micros; ++m) passes.push_back({part, m, Direction::forward});
  for (std::size_t k = parts.size(); k-- > 0;)
    for (int m = 0; m < micros; ++m) passes.push_back({parts[k], m, Direction::backward});
  return passes;
}

// Those of one iteration, for each.
std::vector<Pass> one_after_another(const std::vector<Pass>& one, int micros, int iterations) {
  std::vector<Pass> passes;
  for (int i = 0; i < iterations; ++i)
    for (const Pass& p : one) passes.push_back({p.part, i * micros + p.micro, p.direction});
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

std::vector<Pass> interleave(const std::vector<int>& parts, int micros, int iterations, int groups, int position) {
  int v = static_cast<int>(parts.size()), total = v * micros;
  std::vector<Pass> forward, backward;
  for (int i = 0; i < iterations * total; ++i) {
    int part = i % (groups * v) / groups, micro = i / (groups * v) * groups + i % groups;
    forward.push_back({parts[static_cast<std::size_t>(part)], micro, Direction::forward});
    backward.push_back({parts[static_cast<std::size_t>(v - 1 - part)], micro, Direction::backward});
  }
  int warmup = v == 1 ? groups - 1 - position : 2 * (groups - 1 - position) + (v - 1) * groups;
  if (v > 1 && micros == groups && iterations == 1) warmup = total;
  // No more than one iteration has, or a pass would come before the update that makes its weights, two iterations
  // before.
  return in_turn(forward, backward, static_cast<std::size_t>(std::min(warmup, total)));
}

// With the gradients of weights of each backward pass `lag` backward passes later, the last ones at the end.
std::vector<Pass> with_weights_later(const std::vector<Pass>& passes, int lag) {
  std::vector<Pass> result, waiting;
  for (const Pass& p : passes) {
    result.push_back(p);
    if (p.direction != Direction::backward) continue;
    waiting.push_back({p.part, p.micro, Direction::weights});
    if (static_cast<int>(waiting.size()) <= lag) continue;
    result.push_back(waiting.front());
    waiting.erase(waiting.begin());
  }
  result.insert(result.end(), waiting.begin(), waiting.end());
  return result;
}

// Whether interleaved passes can go on from one iteration to the next: a first stage that begins with more forward
// passes than an iteration has would need a third version of its weights.
bool goes_on(int parts, int micros, int groups) {
  return parts == 1 || 2 * (groups - 1) + (parts - 1) * groups <= parts * micros;
}

// With `m` passes of each part in an iteration. `hide`: by group, how many passes of weights hide the sums of
// gradients.
Result<std::vector<std::vector<Pass>>> passes_of_groups(const PipelineStages& stages, PipelineOrder order, int m,
                                                        int iterations, const std::vector<int>& hide) {
  int groups = static_cast<int>(stages.groups.size());
  int most = *std::max_element(stages.part_counts.begin(), stages.part_counts.end());
  int least = *std::min_element(stages.part_counts.begin(), stages.part_counts.end());
  if ((order == PipelineOrder::one_f_one_b || order == PipelineOrder::zero_bubble) && most > 1)
    return fail(
        "{}: a device holds {} parts of the graph, between which others come; expected 1 (interleaved "
        "orders several)",
        to_string(order), most);
  if (order == PipelineOrder::interleaved && most != least)
    return fail("interleaved: devices hold {} to {} parts of the graph, expected the same number on all", least, most);
  if (order == PipelineOrder::interleaved && most > 1 && m % groups != 0)
    return fail("interleaved: {} passes of micro-batches, expected a multiple of the {} stages", m, groups);
  // Those of branches may be in another order.
  for (std::size_t k = 0; order == PipelineOrder::interleaved && most > 1 && k < stages.chain.size(); ++k)
    if (stages.chain[k].group != static_cast<int>(k) % groups)
      return fail("interleaved: part {} of the graph is on the devices of stage {}, expected stage {}", k,
                  stages.chain[k].group, static_cast<int>(k) % groups);
  std::vector<std::vector<Pass>> passes;
  for (int g = 0; g < groups; ++g) {
    std::vector<int> parts;
    for (std::size_t k = 0; k < stages.chain.size(); ++k)
      if (stages.chain[k].group == g) parts.push_back(static_cast<int>(k));
    if (order == PipelineOrder::gpipe)
      passes.push_back(one_after_another(all_forward_then_backward(parts, m), m, iterations));
    else if (order == PipelineOrder::zero_bubble)
      passes.push_back(one_after_another(
          with_weights_later(interleave(parts, m, 1, groups, g), g + hide[static_cast<std::size_t>(g)]), m,
          iterations));
    else if (goes_on(most, m, groups))
      passes.push_back(interleave(parts, m, iterations, groups, g));
    else
      passes.push_back(one_after_another(interleave(parts, m, 1, groups, g), m, iterations));
  }
  return passes;
}

// By group: how many passes of weights take about as long as its sums of gradients; at most twice as many as there are
// groups, or, where that is more than half of all, as many as these.
std::vector<int> passes_that_hide_sums(const Program& program, const PipelineStages& stages,
                                       const std::vector<PooledTask>& pool, const std::vector<bool>& of_weights,
                                       const std::vector<std::size_t>& group_of, int passes) {
  std::map<DeviceId, double> work, sums;  // of the first micro-batch; in FLOPs that take as long
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Task& t = pool[i].task;
    if (!of_weights[i] || t.iteration != 0) continue;
    if (t.kind == TaskKind::compute && t.micro == 0) work[t.device] += about_work(t);
    if (t.kind != TaskKind::communicate) continue;
    const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
    double each = static_cast<double>(communication_bytes(c).count) / static_cast<double>(c.participants.size());
    for (const Participant& p : c.participants) sums[p.device] += kFlopsPerByteSent * each;
  }
  const auto groups = static_cast<int>(stages.groups.size());
  const double most = groups * std::min(2, passes / (2 * groups));
  std::vector<int> hide(stages.groups.size(), 0);
  for (const auto& [device, sum] : sums) {
    std::size_t group = group_of[device.index()];
    if (group == SIZE_MAX || !(work[device] > 0)) continue;
    double wanted = std::min(std::ceil(sum / work[device]), most);
    hide[group] = std::max(hide[group], static_cast<int>(wanted));
  }
  return hide;
}

// ---- when a pass ends ----

// Of each part, by direction.
using Durations = std::vector<std::array<std::int64_t, kDirections>>;

// about_work(), in units that add up exactly: passes of as many tasks alike end together then.
std::int64_t ticks(const Task& task) { return std::llround(about_work(task)); }

// How long the passes of each part take, in ticks. Only the order of ends matters. `direction`: that of the pass of a
// task, by its place in the pool.
template <class DirectionOf>
Durations durations(const std::vector<PooledTask>& pool, const PipelineStages& stages, DirectionOf&& direction) {
  std::map<std::tuple<int, Direction, DeviceId>, std::int64_t> work;
  for (std::size_t i = 0; i < pool.size(); ++i)
    if (const Task& t = pool[i].task; t.kind == TaskKind::compute &&
                                      stages.place[static_cast<std::size_t>(t.op)] >= 0 && t.micro == 0 &&
                                      t.iteration == 0)
      work[{stages.place[static_cast<std::size_t>(t.op)], direction(i), t.device}] += ticks(t);
  Durations result(stages.chain.size(), {1, 1, 1});
  for (const auto& [where, amount] : work) {
    std::int64_t& longest = result[static_cast<std::size_t>(std::get<0>(where))][place_of(std::get<1>(where))];
    longest = std::max(longest, amount);
  }
  return result;
}

// The end of every pass, as [part][direction][micro-batch].
using Ends = std::vector<std::array<std::vector<std::int64_t>, kDirections>>;

Ends lay_out(const std::vector<std::vector<Pass>>& passes, const Durations& duration, int micros) {
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
        auto need = [&](std::size_t other, Direction direction) {
          std::int64_t end = ends[other][place_of(direction)][micro];
          known = known && end != kNever;
          needs = std::max(needs, end);
        };
        if (p.direction == Direction::weights) need(part, Direction::backward);
        if (p.direction == Direction::backward) need(part, Direction::forward);
        if (p.direction == Direction::backward && part + 1 < ends.size()) need(part + 1, Direction::backward);
        if (p.direction == Direction::forward && part > 0) need(part - 1, Direction::forward);
        if (!known) break;
        free_at[g] = std::max(free_at[g], needs) + duration[part][place_of(p.direction)];
        ends[part][place_of(p.direction)][micro] = free_at[g];
      }
    UNITY_CHECK(left < before, "{} passes of a pipeline wait for one another", left);
  }
  return ends;
}

// Where a task stands. Where passes end together, those further down the pipeline come first: what they send is waited
// for. Updates come behind the pass of the same end.
struct Key {
  std::int64_t end = 0;
  int upstream = 0;
  bool update = false;
  std::int32_t op = 0;  // of gradients of weights at the end
  OverlapPlace place = {};
  bool no_pass_waits = false;
  auto operator<=>(const Key&) const = default;
};
constexpr Key kFirst{}, kLast{std::numeric_limits<std::int64_t>::max()};

// Where a group's updates stand, [group][iteration] but for the last: behind the pass before the first backward pass of
// the next iteration, so that a forward pass hides what sums gradients and none are held for two iterations; and before
// the first forward pass of the iteration after that, which reads what they write.
std::vector<std::vector<Key>> places_of_updates(const std::vector<std::vector<Pass>>& passes, const Ends& ends,
                                                int micros, int iterations) {
  std::vector<std::vector<Key>> places;
  for (const std::vector<Pass>& list : passes) {
    std::vector<Key>& own = places.emplace_back();
    for (int t = 0; t + 1 < iterations; ++t) {
      auto next = std::find_if(list.begin(), list.end(), [&](const Pass& p) {
        return p.micro / micros == t + (p.direction == Direction::forward ? 2 : 1);
      });
      if (next == list.begin() || next == list.end()) {
        own.push_back(kFirst);
        continue;
      }
      const Pass& p = *(next - 1);
      auto part = static_cast<std::size_t>(p.part), micro = static_cast<std::size_t>(p.micro);
      own.push_back({ends[part][place_of(p.direction)][micro], static_cast<int>(ends.size()) - p.part, true, 0});
    }
  }
  return places;
}

// What the caller knows of a task: the pass it belongs to, or where its update stands.
struct Own {
  Key key;                 // without the place in the pass
  std::int64_t begin = 0;  // of the pass, as the ends of keys are counted
};

// Whether passes wait for what is communicated inside them, and not only for weights and for other passes.
bool communicate_inside(const std::vector<PooledTask>& pool, const std::vector<Key>& keys,
                        const std::vector<bool>& of_pass) {
  std::vector<bool> inside(pool.size(), false);  // waits for a task of a pass
  for (std::size_t i = 0; i < pool.size(); ++i)
    for (std::size_t d : pool[i].after) {
      if (of_pass[d] || inside[d]) inside[i] = true;
      if (of_pass[i] && inside[d] && pool[d].task.kind == TaskKind::communicate && keys[d].end == keys[i].end)
        return true;
    }
  return false;
}

// Within a pass, a device works through its tasks one after the other. So each task, those of `sorted` in that order,
// has a time, and what is sent from pass to pass stands between the communications that the receiver has then: not
// before all those of a pass that began earlier, which would wait for it. Times never come before those of what a task
// waits for. Communications that no pass waits for stay at the end of theirs.
template <class Pass>
void sort_by_time(const std::vector<PooledTask>& pool, const std::vector<Key>& keys, const std::vector<bool>& free,
                  std::int64_t at_once, std::size_t devices, std::vector<std::size_t>& sorted, Pass&& pass) {
  std::vector<std::int64_t> times(pool.size(), 0);
  std::vector<std::int64_t> busy_until(devices, 0);
  for (std::size_t i : sorted) {
    const Task& t = pool[i].task;
    std::int64_t& time = times[i];
    for (std::size_t d : pool[i].after)
      if (!free[d]) time = std::max(time, times[d]);
    std::optional<Own> own = pass(i);
    if (own && own->key == kLast) {
      time = kLast.end;
    } else if (own && t.kind == TaskKind::compute) {
      std::int64_t& until = busy_until[t.device.index()];
      time = until = std::max({time, until, at_once * own->begin}) + ticks(t);
    } else if (own || keys[i].no_pass_waits) {
      time = std::max(time, at_once * keys[i].end);
    }
  }
  std::vector<std::int64_t> first_use(pool.size(), kLast.end);
  for (std::size_t k = sorted.size(); k-- > 0;) {
    std::size_t i = sorted[k];
    if (free[i]) times[i] = first_use[i];
    for (std::size_t d : pool[i].after) first_use[d] = std::min(first_use[d], times[i]);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
}

// Sorts the tasks of a Program, which the pool holds, by what `pass` says of each (an Own); none for what goes with the
// latest that it depends on. `overlap`: as the schedule's. With micro-batches, `at_once` of them in a pass.
template <class Pass>
void sort_tasks(const Program& program, std::vector<PooledTask>& pool, int overlap, std::optional<int> at_once,
                Pass&& pass) {
  std::vector<OverlapPlace> places;
  if (overlap > 0) places = overlap_places(program, pool, overlap);
  std::vector<Key> keys(pool.size());
  std::vector<bool> free(pool.size(), false);     // waits for nothing and belongs to no pass
  std::vector<bool> awaited(pool.size(), false);  // by a pass of its iteration
  std::vector<bool> of_pass(pool.size(), false);
  for (std::size_t i = pool.size(); i-- > 0;) {
    const Task& t = pool[i].task;
    of_pass[i] = t.kind == TaskKind::compute && pass(i);
    if (of_pass[i]) awaited[i] = true;
    for (std::size_t d : pool[i].after)
      if (awaited[i] && t.kind != TaskKind::update) awaited[d] = true;
  }
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Task& t = pool[i].task;
    std::optional<Own> own = pass(i);
    if (own && own->key == kLast) {
      keys[i] = kLast;
      continue;
    }
    if (own) keys[i] = own->key;
    if (overlap > 0 && t.phase != Phase::update) keys[i].place = places[i];
    free[i] = !of_pass[i] && pool[i].after.empty();
    for (std::size_t d : pool[i].after)
      if (!free[d]) keys[i] = std::max(keys[i], keys[d]);
    if (t.kind == TaskKind::communicate && !awaited[i]) keys[i].no_pass_waits = true;
  }
  // Such as zeros: just before their first use.
  std::vector<Key> first_use(pool.size(), kLast);
  for (std::size_t i = pool.size(); i-- > 0;) {
    if (free[i]) keys[i] = first_use[i];
    for (std::size_t d : pool[i].after) first_use[d] = std::min(first_use[d], keys[i]);
  }
  // Keys are few, and tasks of one key often follow one another.
  std::map<Key, std::size_t> of_key;  // how many tasks have it; then where the next one of them goes
  std::vector<std::size_t*> place(pool.size());
  auto at = of_key.end();
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (at == of_key.end() || at->first != keys[i]) at = of_key.try_emplace(keys[i], 0).first;
    ++*(place[i] = &at->second);
  }
  std::size_t begin = 0;
  for (auto& [key, tasks] : of_key) begin += std::exchange(tasks, begin);
  std::vector<std::size_t> sorted(pool.size());
  for (std::size_t i = 0; i < pool.size(); ++i) sorted[(*place[i])++] = i;
  if (at_once && communicate_inside(pool, keys, of_pass))
    sort_by_time(pool, keys, free, *at_once, static_cast<std::size_t>(program.devices), sorted, pass);
  reorder(pool, sorted);
}

}  // namespace

Result<void> order_micro_batches(Program& program, const Schedule& schedule) {
  std::vector<PooledTask> pool = take_tasks(program);
  if (UNITY_TRY(order_micro_batches(program, pool, schedule))) put_tasks(program, pool);
  return {};
}

Result<bool> order_micro_batches(const Program& program, std::vector<PooledTask>& pool, const Schedule& schedule) {
  PipelineStages stages = find_stages(program);
  const int iterations = program.iterations;
  if (stages.micro_batches == 1) {
    // One pass forward, one backward.
    if (schedule.overlap == 0 || iterations > 1) return false;
    sort_tasks(program, pool, 1, std::nullopt, [&](std::size_t i) -> std::optional<Own> {
      const Task& t = pool[i].task;
      if (t.phase == Phase::update) return Own{kLast};
      if (t.kind != TaskKind::compute) return std::nullopt;
      return Own{{t.phase == Phase::backward ? 1 : 0}};
    });
    return true;
  }
  const int at_once = std::max(1, schedule.overlap);
  const int micros = (stages.micro_batches + at_once - 1) / at_once;  // passes of so many micro-batches
  std::vector<bool> of_weights(pool.size());
  if (schedule.order == PipelineOrder::zero_bubble) of_weights = gradients_of_weights(pool);
  auto direction = [&](std::size_t i) {
    if (pool[i].task.phase != Phase::backward) return Direction::forward;
    return of_weights[i] ? Direction::weights : Direction::backward;
  };
  std::vector<std::size_t> group_of(static_cast<std::size_t>(program.devices), SIZE_MAX);
  for (std::size_t g = 0; g < stages.groups.size(); ++g)
    for (DeviceId d : stages.groups[g]) group_of[d.index()] = g;
  auto passes = UNITY_TRY(passes_of_groups(stages, schedule.order, micros, iterations,
                                           passes_that_hide_sums(program, stages, pool, of_weights, group_of, micros)));
  const Durations lasts = durations(pool, stages, direction);
  Ends ends = lay_out(passes, lasts, iterations * micros);
  auto updates = places_of_updates(passes, ends, micros, iterations);
  auto parts = static_cast<int>(stages.chain.size());
  sort_tasks(program, pool, schedule.overlap, at_once, [&](std::size_t i) -> std::optional<Own> {
    const Task& t = pool[i].task;
    if (t.phase == Phase::update && t.iteration + 1 == iterations) return Own{kLast};
    if (std::size_t g = group_of[t.device.index()]; t.kind == TaskKind::update && g != SIZE_MAX)
      return Own{updates[g][t.iteration]};
    int part = t.kind == TaskKind::compute ? stages.place[static_cast<std::size_t>(t.op)] : -1;
    if (part < 0) return std::nullopt;
    const auto& of_part = ends[static_cast<std::size_t>(part)];
    const auto& end = of_part[place_of(direction(i))];
    auto pass = static_cast<std::size_t>(t.iteration * micros + t.micro / at_once);
    // Those that come behind the last backward pass: operator by operator.
    if (direction(i) == Direction::weights) {
      auto last = static_cast<std::size_t>((t.iteration + 1) * micros - 1);
      std::int64_t backward = of_part[place_of(Direction::backward)][last];
      if (end[pass] > backward) return Own{{end[last], parts - part, false, t.op}, backward};
    }
    return Own{{end[pass], parts - part}, end[pass] - lasts[static_cast<std::size_t>(part)][place_of(direction(i))]};
  });
  return true;
}

}  // namespace unity
