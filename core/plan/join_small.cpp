#include "core/plan/join_small.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/hash.h"
#include "core/plan/join_communications.h"
#include "core/plan/overlap.h"

namespace unity {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

bool joins(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::all_reduce;
}

std::int64_t bytes_of(const Communication& c) { return elements_moved(c) * size_of(c.dtype); }

// A communication that may become one with others.
struct Small {
  std::size_t task;
  std::vector<std::size_t> before;  // tasks that come after it, in order
};

std::vector<Small> find_small(const Program& program, const std::vector<PooledTask>& pool) {
  std::vector<Small> found;
  std::vector<std::size_t> at(pool.size(), kNone);  // in `found`
  std::vector<bool> of_weights;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    for (std::size_t d : pool[i].after)
      if (at[d] != kNone) found[at[d]].before.push_back(i);
    const Task& t = pool[i].task;
    if (t.kind != TaskKind::communicate) continue;
    const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
    if (!joins(c.kind) || bytes_of(c) > kSmallTogether.count) continue;
    if (t.phase == Phase::backward && c.kind == CollectiveKind::all_reduce) {
      if (of_weights.empty()) of_weights = gradients_of_weights(pool);
      if (of_weights[i]) continue;
    }
    at[i] = found.size();
    found.push_back({i, {}});
  }
  return found;
}

// Those of which list(s) is the same; where it is empty, since what is listed is on devices that are not lowered
// (LowerOptions::blocks), and they follow one another. `last`: they take the place of the last one, not the first.
template <class List>
bool join_alike(Program& program, std::vector<PooledTask>& pool, const std::vector<Small>& small, bool last,
                List&& list) {
  auto communication_of = [&](std::size_t task) -> const Communication& {
    return program.communications[static_cast<std::size_t>(pool[task].task.op)];
  };
  struct Group {
    const Small* first;
    JoinedTasks joined;
    std::int64_t bytes;
  };
  std::vector<Group> groups;
  std::unordered_map<Hash, std::vector<std::size_t>> with;  // in `groups`, by the hash of the list
  for (const Small& s : small) {
    const auto& mine = list(s);
    Hash hash = mix(mine.size());
    for (std::size_t t : mine) hash = combine(hash, t);
    const Communication& c = communication_of(s.task);
    std::vector<std::size_t>& alike = with[hash];
    auto fits = [&](std::size_t g) {
      const Group& group = groups[g];
      if (mine.empty() && group.joined.tasks.back() + 1 != s.task) return false;
      return group.bytes + bytes_of(c) <= kSmallTogether.count && std::ranges::equal(list(*group.first), mine) &&
             pool[group.first->task].task.phase == pool[s.task].task.phase &&
             joinable_as(communication_of(group.first->task)) == joinable_as(c);
    };
    auto found = std::find_if(alike.begin(), alike.end(), fits);
    if (found == alike.end()) {
      alike.push_back(groups.size());
      groups.push_back({&s, {{s.task}, s.task}, bytes_of(c)});
      continue;
    }
    Group& group = groups[*found];
    group.joined.tasks.push_back(s.task);
    if (last) group.joined.place = s.task;
    group.bytes += bytes_of(c);
  }
  std::vector<JoinedTasks> joined;
  for (Group& g : groups)
    if (g.joined.tasks.size() > 1) joined.push_back(std::move(g.joined));
  if (!joined.empty()) join_communications(program, pool, joined);
  return !joined.empty();
}

}  // namespace

bool join_small_communications(Program& program, std::vector<PooledTask>& pool) {
  std::vector<Small> small = find_small(program, pool);
  bool together = join_alike(
      program, pool, small, false, [&](const Small& s) -> auto& { return pool[s.task].after; });
  if (together) small = find_small(program, pool);
  // Whatever waits for one waits for the other: that one starts later costs nothing but what it has in bytes.
  return join_alike(
             program, pool, small, true, [](const Small& s) -> auto& { return s.before; }) ||
         together;
}

}  // namespace unity
