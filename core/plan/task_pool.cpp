#include "core/plan/task_pool.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace unity {

std::vector<PooledTask> take_tasks(const Program& program) {
  std::vector<PooledTask> pool;
  pool.reserve(program.tasks.size());
  for (const Task& t : program.tasks) {
    PooledTask& pooled = pool.emplace_back();
    pooled.task = t;
    auto operands = program.operands_of(t);
    pooled.operands.assign(operands.begin(), operands.end());
    auto after = program.dependencies_of(t);
    pooled.after.reserve(after.size());
    for (TaskId d : after) pooled.after.push_back(d.index());
  }
  return pool;
}

namespace {

constexpr std::size_t kNowhere = SIZE_MAX;
constexpr std::size_t kFewSteps = 64;
constexpr std::size_t kAhead = 8;

// What a task comes after, in the places that tasks have got so far: in order, each once.
template <class List>
void place_dependencies(List& after, std::size_t task, const std::vector<std::size_t>& places) {
  for (std::size_t& d : after) {
    UNITY_CHECK(places[d] != kNowhere, "task {} is put before task {}, which it comes after", task, d);
    d = places[d];
  }
  if (after.size() < 2) return;
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
}

}  // namespace

bool waits_for(const std::vector<PooledTask>& pool, std::size_t task, std::size_t earlier) {
  std::vector<std::size_t> open = {task};
  for (std::size_t k = 0; k < open.size() && open.size() < kFewSteps; ++k)
    for (std::size_t d : pool[open[k]].after) {
      if (d == earlier) return true;
      if (d > earlier && std::find(open.begin(), open.end(), d) == open.end()) open.push_back(d);
    }
  return false;
}

void reorder(std::vector<PooledTask>& pool, const std::vector<std::size_t>& order, std::size_t most_copied) {
  std::vector<std::size_t> places(pool.size(), kNowhere);
  for (std::size_t k = 0; k < order.size(); ++k) {
    place_dependencies(pool[order[k]].after, order[k], places);
    places[order[k]] = k;
  }
  if (std::is_sorted(order.begin(), order.end())) {  // some are dropped, if any
    for (std::size_t k = 0; k < order.size(); ++k)
      if (order[k] != k) pool[k] = std::move(pool[order[k]]);
    pool.resize(order.size());
    return;
  }
  if (order.size() <= most_copied) {
    std::vector<PooledTask> sorted;
    sorted.reserve(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      // Far apart as they lie, each would be waited for.
      if (k + kAhead < order.size()) __builtin_prefetch(&pool[order[k + kAhead]]);
      sorted.push_back(std::move(pool[order[k]]));
    }
    pool = std::move(sorted);
    return;
  }
  // In place: what is dropped goes behind the others, then each to where it belongs, around
  // the cycles of the permutation.
  std::vector<std::size_t> from = order;
  from.reserve(pool.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] == kNowhere) from.push_back(i);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == i) continue;
    PooledTask first = std::move(pool[i]);
    std::size_t to = i;
    for (std::size_t next = from[to]; next != i; next = from[to]) {
      pool[to] = std::move(pool[next]);
      from[to] = to, to = next;
    }
    pool[to] = std::move(first), from[to] = to;
  }
  pool.resize(order.size());
}

std::vector<std::size_t> in_order(const std::vector<PooledTask>& pool, const std::function<bool(std::size_t)>& stays) {
  // By task, those that come after it: from begin[task] on.
  std::vector<std::uint32_t> begin(pool.size() + 1, 0), waits(pool.size(), 0), followers;
  for (std::size_t i = 0; i < pool.size(); ++i)
    if (stays(i))
      for (std::size_t d : pool[i].after) ++begin[d + 1], ++waits[i];
  for (std::size_t i = 0; i < pool.size(); ++i) begin[i + 1] += begin[i];
  followers.resize(begin.back());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t i = 0; i < pool.size(); ++i)
    if (stays(i))
      for (std::size_t d : pool[i].after) followers[next[d]++] = static_cast<std::uint32_t>(i);
  std::vector<std::size_t> order;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> open;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (stays(i) && waits[i] == 0) open.push(i);
    // Whatever is open and stands before the next one.
    while (!open.empty() && open.top() <= i) {
      const std::size_t task = open.top();
      open.pop();
      order.push_back(task);
      for (std::uint32_t k = begin[task]; k < begin[task + 1]; ++k)
        if (--waits[followers[k]] == 0 && followers[k] <= i) open.push(followers[k]);
    }
  }
  return order;
}

void put_tasks(Program& program, const std::vector<PooledTask>& pool, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> places(pool.size(), kNowhere);
  program.tasks.clear(), program.operands.clear(), program.dependencies.clear();
  program.tasks.reserve(order.size());
  absl::InlinedVector<std::size_t, 16> after;
  for (std::size_t i : order) {
    after.assign(pool[i].after.begin(), pool[i].after.end());
    place_dependencies(after, i, places);
    places[i] = program.tasks.size();
    Task t = pool[i].task;
    t.operands_begin = static_cast<std::uint32_t>(program.operands.size());
    program.operands.insert(program.operands.end(), pool[i].operands.begin(), pool[i].operands.end());
    t.operands_end = static_cast<std::uint32_t>(program.operands.size());
    t.dependencies_begin = static_cast<std::uint32_t>(program.dependencies.size());
    for (std::size_t d : after) program.dependencies.emplace_back(static_cast<std::int64_t>(d));
    t.dependencies_end = static_cast<std::uint32_t>(program.dependencies.size());
    program.tasks.push_back(t);
  }
}

void put_tasks(Program& program, const std::vector<PooledTask>& pool) {
  std::vector<std::size_t> all(pool.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  put_tasks(program, pool, all);
}

}  // namespace unity
