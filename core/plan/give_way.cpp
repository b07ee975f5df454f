#include "core/plan/give_way.h"

#include <algorithm>
#include <map>

#include "core/plan/overlap.h"

namespace unity {
namespace {

constexpr double kMargin = 2.5;  // links may be slower than assumed, or shared

// By task: the first one behind it that uses its buffers, or waits for it.
std::vector<std::size_t> next_uses(const Program& program, const std::vector<PooledTask>& pool) {
  std::vector<std::size_t> next(pool.size(), pool.size()), of_buffer(program.buffers.size(), pool.size());
  for (std::size_t i = pool.size(); i-- > 0;) {
    auto each = [&](auto use) { for_each_use(program, pool[i].task, pool[i].operands, use); };
    each([&](BufferId b, bool) { next[i] = std::min(next[i], of_buffer[b.index()]); });
    each([&](BufferId b, bool) { of_buffer[b.index()] = i; });
    for (std::size_t d : pool[i].after) next[d] = std::min(next[d], i);
  }
  return next;
}

// Of a device, what it computes in the backward pass between the communications that the pass waits for: gap 0 before
// the first of them.
struct Gaps {
  std::vector<std::size_t> behind = {0};  // the communication's position; of gap 0, none
  std::vector<double> work = {0};         // as of about_work(), that nothing fills yet
};

}  // namespace

bool give_way(const Program& program, std::vector<PooledTask>& pool) {
  const std::vector<bool> of_weights = gradients_of_weights(pool);
  auto communicates = [&](std::size_t i) {
    return pool[i].task.kind == TaskKind::communicate && pool[i].task.phase == Phase::backward;
  };
  auto participants = [&](std::size_t i) -> const std::vector<Participant>& {
    return program.communications[static_cast<std::size_t>(pool[i].task.op)].participants;
  };
  struct Waiting {
    std::size_t task, gap;
    double before;  // work of that gap that comes before it
  };
  std::map<DeviceId, Gaps> gaps;
  std::vector<Waiting> gradients;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Task& t = pool[i].task;
    if (t.phase != Phase::backward) continue;
    if (t.kind == TaskKind::compute) gaps[t.device].work.back() += about_work(t);
    if (!communicates(i)) continue;
    if (of_weights[i]) {
      const Gaps& first = gaps[participants(i)[0].device];  // they are all alike
      gradients.push_back({i, first.work.size() - 1, first.work.back()});
      continue;
    }
    for (const Participant& p : participants(i)) {
      Gaps& mine = gaps[p.device];
      if (mine.behind.back() == i && mine.work.size() > 1) continue;
      mine.behind.push_back(i);
      mine.work.push_back(0);
    }
  }
  if (gradients.empty()) return false;
  const std::vector<std::size_t> next = next_uses(program, pool);
  std::map<std::size_t, std::vector<std::size_t>> moved;  // by the task that they come behind
  std::vector<bool> has_moved(pool.size(), false);
  for (const Waiting& g : gradients) {
    const Communication& c = program.communications[static_cast<std::size_t>(pool[g.task].task.op)];
    const double need = kMargin * kFlopsPerByteSent * static_cast<double>(communication_bytes(c).count) /
                        static_cast<double>(c.participants.size());
    Gaps& mine = gaps[c.participants[0].device];
    for (std::size_t k = g.gap; k < mine.work.size(); ++k) {
      if (k > g.gap && mine.behind[k] >= next[g.task]) break;
      const double left = k == g.gap ? mine.work[k] - g.before : mine.work[k];
      if (left < need) continue;
      mine.work[k] -= need;
      if (k > g.gap) moved[mine.behind[k]].push_back(g.task), has_moved[g.task] = true;
      break;
    }
  }
  if (moved.empty()) return false;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (!has_moved[i]) order.push_back(i);
    if (auto behind = moved.find(i); behind != moved.end())
      order.insert(order.end(), behind->second.begin(), behind->second.end());
  }
  reorder(pool, order);
  return true;
}

}  // namespace unity
