#include "core/plan/buckets.h"

#include <map>
#include <set>

namespace unity {
namespace {

// Collectives that can be one.
struct Group {
  CollectiveKind kind;
  Monoid monoid;
  DType dtype;
  std::vector<DeviceId> devices;
  auto operator<=>(const Group&) const = default;
};

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
  std::map<Group, std::vector<Bucket>> buckets;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (!joinable[i]) continue;
    const Communication& c = program.communications[static_cast<std::size_t>(pool[i].task.op)];
    Group group{c.kind, c.monoid, c.dtype, {}};
    for (const Participant& p : c.participants) group.devices.push_back(p.device);
    std::vector<Bucket>& list = buckets[std::move(group)];
    if (list.empty() || list.back().bytes >= bytes.count) list.emplace_back();
    list.back().tasks.push_back(i);
    list.back().bytes += elements_moved(c) * size_of(c.dtype);
  }

  // The last collective of a bucket takes the others in, who leave.
  std::vector<std::size_t> becomes(pool.size());
  for (std::size_t i = 0; i < pool.size(); ++i) becomes[i] = i;
  std::vector<Communication> communications;
  for (const auto& [group, list] : buckets)
    for (const Bucket& bucket : list) {
      PooledTask& last = pool[bucket.tasks.back()];
      Communication joined = program.communications[static_cast<std::size_t>(pool[bucket.tasks[0]].task.op)];
      for (std::size_t k = 0; k < bucket.tasks.size(); ++k) {
        PooledTask& part = pool[bucket.tasks[k]];
        becomes[bucket.tasks[k]] = bucket.tasks.back();
        if (k > 0) joined.joined.push_back(program.communications[static_cast<std::size_t>(part.task.op)].participants);
        if (&part != &last) last.after.insert(last.after.end(), part.after.begin(), part.after.end());
      }
      if (bucket.tasks.size() > 1) joined.name += fmt::format(" and {} more", bucket.tasks.size() - 1);
      last.task.bytes = static_cast<double>(communication_bytes(joined).count);
      program.communications[static_cast<std::size_t>(last.task.op)] = std::move(joined);
    }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    for (std::size_t& d : pool[i].after) d = becomes[d];
    if (becomes[i] == i) order.push_back(i);
  }
  // Communications that are left, numbered anew.
  for (std::size_t i : order)
    if (pool[i].task.kind == TaskKind::communicate) {
      communications.push_back(std::move(program.communications[static_cast<std::size_t>(pool[i].task.op)]));
      pool[i].task.op = static_cast<std::int32_t>(communications.size()) - 1;
    }
  program.communications = std::move(communications);
  reorder(pool, order);
  return true;
}

}  // namespace unity
