#include "core/plan/buckets.h"

#include <algorithm>
#include <map>

#include "core/plan/join_communications.h"

namespace unity {
namespace {

struct Bucket {
  std::vector<std::size_t> tasks;  // positions in the pool, in order
  std::int64_t bytes = 0;
};

// By task: a sum of gradients whose result only updates read.
std::vector<bool> find_synchronisations(const Program& program, const std::vector<PooledTask>& pool) {
  std::vector<bool> read_early(program.buffers.size(), false);
  std::vector<std::size_t> last_addition(program.buffers.size(), 0);
  std::vector<bool> found(pool.size(), false);
  for (std::size_t i = 0; i < pool.size(); ++i)
    if (const PooledTask& t = pool[i]; t.task.phase != Phase::update)
      for_each_use(program, t.task, t.operands, [&](BufferId b, bool written) {
        // A summand's own buffer may take the sum: it is read by this collective and by those before it in the list.
        if (!written && t.task.kind != TaskKind::communicate) read_early[b.index()] = true;
        if (written && t.task.kind == TaskKind::accumulate) last_addition[b.index()] = i;
      });
  std::vector<int> sent(program.buffers.size(), 0);
  for (const PooledTask& t : pool)
    if (t.task.kind == TaskKind::communicate)
      for_each_use(program, t.task, t.operands, [&](BufferId b, bool written) { sent[b.index()] += !written; });
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Task& t = pool[i].task;
    if (t.kind != TaskKind::communicate || t.phase != Phase::backward) continue;
    const Communication& c = program.communications[static_cast<std::size_t>(t.op)];
    found[i] = c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::reduce_scatter;
    for (const Participant& p : c.participants) {
      if (!p.receive.valid()) continue;
      bool in_place = p.send == p.receive;
      if (read_early[p.receive.index()] || last_addition[p.receive.index()] > i ||
          sent[p.receive.index()] > (in_place ? 1 : 0))
        found[i] = false;
    }
  }
  return found;
}

}  // namespace

bool join_gradients(Program& program, std::vector<PooledTask>& pool, Bytes bytes) {
  if (bytes.count == 0) return false;
  std::vector<bool> joinable = find_synchronisations(program, pool);
  std::map<JoinableAs, std::vector<Bucket>> buckets;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (!joinable[i]) continue;
    const Communication& c = program.communications[static_cast<std::size_t>(pool[i].task.op)];
    std::vector<Bucket>& list = buckets[joinable_as(c)];
    if (list.empty() || list.back().bytes >= bytes.count) list.emplace_back();
    list.back().tasks.push_back(i);
    list.back().bytes += elements_moved(c) * size_of(c.dtype);
  }
  std::vector<JoinedTasks> groups;
  for (auto& [as, list] : buckets)
    for (Bucket& bucket : list) {
      const std::size_t last = bucket.tasks.back();
      groups.push_back({std::move(bucket.tasks), last});
    }
  if (std::ranges::none_of(groups, [](const JoinedTasks& group) { return group.tasks.size() > 1; })) return false;
  join_communications(program, pool, groups);
  return true;
}

}  // namespace unity
