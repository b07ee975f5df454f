#include "core/plan/join_communications.h"

#include <algorithm>
#include <numeric>

namespace unity {

JoinableAs joinable_as(const Communication& c) {
  JoinableAs as{c.kind, c.monoid, c.dtype, c.participants[0].send.valid(), {}};
  as.devices.reserve(c.participants.size());
  for (const Participant& p : c.participants) as.devices.push_back(p.device);
  return as;
}

void join_communications(Program& program, std::vector<PooledTask>& pool, const std::vector<JoinedTasks>& groups) {
  auto communication_of = [&](std::size_t task) -> Communication& {
    return program.communications[static_cast<std::size_t>(pool[task].task.op)];
  };
  std::vector<std::size_t> becomes(pool.size());
  std::iota(becomes.begin(), becomes.end(), std::size_t{0});
  for (const JoinedTasks& group : groups) {
    if (group.tasks.size() < 2) continue;
    Communication joined = std::move(communication_of(group.tasks[0]));
    for (std::size_t k = 1; k < group.tasks.size(); ++k) {
      Communication& other = communication_of(group.tasks[k]);
      joined.joined.push_back(std::move(other.participants));
      for (std::vector<Participant>& part : other.joined) joined.joined.push_back(std::move(part));
    }
    PooledTask& stays = pool[group.place];
    for (std::size_t i : group.tasks) {
      becomes[i] = group.place;
      if (i != group.place) stays.after.insert(stays.after.end(), pool[i].after.begin(), pool[i].after.end());
    }
    joined.name += fmt::format(" and {} more", group.tasks.size() - 1);
    stays.task.bytes = static_cast<double>(communication_bytes(joined).count);
    communication_of(group.place) = std::move(joined);
  }
  keep_one_of_joined(program, pool, becomes);
}

void keep_one_of_joined(Program& program, std::vector<PooledTask>& pool, const std::vector<std::size_t>& becomes) {
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (becomes[i] != i) continue;
    auto& after = pool[i].after;
    for (std::size_t& d : after) d = becomes[d];
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
  }
  const std::vector<std::size_t> order = in_order(pool, [&](std::size_t i) { return becomes[i] == i; });
  std::vector<Communication> communications;  // those that are left, numbered anew
  for (std::size_t i : order)
    if (pool[i].task.kind == TaskKind::communicate) {
      communications.push_back(std::move(program.communications[static_cast<std::size_t>(pool[i].task.op)]));
      pool[i].task.op = static_cast<std::int32_t>(communications.size()) - 1;
    }
  program.communications = std::move(communications);
  reorder(pool, order);
}

}  // namespace unity
