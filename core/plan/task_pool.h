// The tasks of a Program taken apart, so that a pass can order, add, join and drop them, and put them back.
#pragma once

#include <functional>
#include <vector>

#include <absl/container/inlined_vector.h>

#include "core/plan/program.h"

namespace unity {

// A task with lists of its own. `after` holds positions in the pool, which stay the same whatever the order becomes.
struct PooledTask {
  Task task;
  absl::InlinedVector<BufferId, 4> operands;
  absl::InlinedVector<std::size_t, 3> after;
};

std::vector<PooledTask> take_tasks(const Program& program);

// The tasks of `order` (positions in the pool), in that order, become the pool, or the program's; whatever they come
// after must be among them, before them. Up to so many by way of a copy, which is quicker; Programs may be large.
void reorder(std::vector<PooledTask>& pool, const std::vector<std::size_t>& order, std::size_t most_copied = 500'000);
// The tasks that stay, in the order of the pool, but for those that come after one that stands behind them. They come
// after none that goes.
std::vector<std::size_t> in_order(const std::vector<PooledTask>& pool, const std::function<bool(std::size_t)>& stays);
void put_tasks(Program& program, const std::vector<PooledTask>& pool, const std::vector<std::size_t>& order);
// All of them, in the order of the pool.
void put_tasks(Program& program, const std::vector<PooledTask>& pool);

// Whether a task waits for an earlier one; false also where a few steps do not tell.
bool waits_for(const std::vector<PooledTask>& pool, std::size_t task, std::size_t earlier);

// Calls use(buffer, written) for what a task reads and writes; a buffer that is read and written counts as written, and
// what an operator takes only the shape of is neither.
template <class Buffers, class Use>
void for_each_use(const Program& program, const Task& task, const Buffers& operands, Use&& use) {
  if (task.kind == TaskKind::communicate) {
    const Communication& c = program.communications[static_cast<std::size_t>(task.op)];
    for (std::size_t part = 0; part < c.part_count(); ++part)
      for (const Participant& p : c.part(part)) {
        if (p.send.valid()) use(p.send, false);
        if (p.receive.valid()) use(p.receive, true);
      }
    return;
  }
  const ProgramOp* op = task.kind == TaskKind::compute ? &program.ops[static_cast<std::size_t>(task.op)] : nullptr;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid() || (op && i < op->inputs && op->shape_only[i])) continue;
    bool written = op ? i >= op->inputs : i + 1 == operands.size();
    if (task.kind == TaskKind::update) written = i == 0 || (i > 1 && task.op < 0);
    use(operands[i], written);
  }
}

}  // namespace unity
