#include "core/plan/accumulation.h"

#include <algorithm>
#include <optional>

namespace unity {
namespace {

constexpr std::size_t kNone = SIZE_MAX, kSeveral = SIZE_MAX - 1;

// By buffer, the only task that writes it, and the only one that reads it.
struct Uses {
  std::vector<std::size_t> writer, reader;
};

Uses find_uses(const Program& p, const std::vector<PooledTask>& pool) {
  Uses uses{std::vector<std::size_t>(p.buffers.size(), kNone), std::vector<std::size_t>(p.buffers.size(), kNone)};
  for (std::size_t i = 0; i < pool.size(); ++i)
    for_each_use(p, pool[i].task, pool[i].operands, [&](BufferId b, bool written) {
      std::size_t& use = written ? uses.writer[b.index()] : uses.reader[b.index()];
      use = use == kNone ? i : kSeveral;
    });
  for (const ProgramOutput& out : p.outputs)
    for (BufferId b : out.buffers) uses.reader[b.index()] = kSeveral;
  return uses;
}

// The operators of the program, each followed by the form of it that adds, if it is wanted; by old operator its new
// place.
std::vector<std::int32_t> with_adding_forms(Program& p, const std::vector<bool>& wanted) {
  std::vector<std::int32_t> place;
  std::vector<ProgramOp> ops;
  for (std::size_t op = 0; op < p.ops.size(); ++op) {
    place.push_back(static_cast<std::int32_t>(ops.size()));
    ops.push_back(std::move(p.ops[op]));
    if (!wanted[op]) continue;
    ProgramOp adding = ops.back();
    adding.op = &get_operator(adding.op->accumulating());
    ++adding.inputs;
    adding.shape_only.push_back(false);
    ops.push_back(std::move(adding));
  }
  p.ops = std::move(ops);
  return place;
}

}  // namespace

bool adds_to(const ProgramOp& adding, const ProgramOp& op) {
  return adding.op->name() == op.op->accumulating() && adding.origin == op.origin && adding.name == op.name;
}

bool accumulate_in_place(Program& p, std::vector<PooledTask>& pool) {
  if (std::none_of(p.ops.begin(), p.ops.end(), [](const ProgramOp& op) { return !op.op->accumulating().empty(); }))
    return false;
  const Uses uses = find_uses(p, pool);
  // By task: the one that adds its result to a sum, which it takes over.
  std::vector<std::optional<std::size_t>> addition(pool.size());
  std::vector<std::size_t> becomes(pool.size());
  std::vector<bool> wanted(p.ops.size(), false);
  bool any = false;
  for (std::size_t a = 0; a < pool.size(); ++a) {
    becomes[a] = a;
    const Task& add = pool[a].task;
    if (add.kind != TaskKind::accumulate) continue;
    BufferId from = pool[a].operands[0], to = pool[a].operands[1];
    const std::size_t maker = uses.writer[from.index()];
    if (maker >= kSeveral || uses.reader[from.index()] != a) continue;
    const Task& made = pool[maker].task;
    if (made.kind != TaskKind::compute || pool[maker].operands.back() != from) continue;
    const ProgramOp& op = p.ops[static_cast<std::size_t>(made.op)];
    const bool whole =
        p.buffer(from).box == p.buffer(to).box && p.boxes[static_cast<std::size_t>(add.op)] == p.buffer(to).box;
    if (op.op->accumulating().empty() || pool[maker].operands.size() != op.inputs + 1 || !whole) continue;
    // What the addition waits for, but for its summand, is there before.
    if (std::any_of(pool[a].after.begin(), pool[a].after.end(), [&](std::size_t d) { return becomes[d] > maker; }))
      continue;
    addition[maker] = a, becomes[a] = maker;
    wanted[static_cast<std::size_t>(made.op)] = any = true;
  }
  if (!any) return false;
  const std::vector<std::int32_t> place = with_adding_forms(p, wanted);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    PooledTask& task = pool[i];
    if (becomes[i] != i) continue;
    order.push_back(i);
    if (task.task.kind == TaskKind::compute || (task.task.kind == TaskKind::update && task.task.op >= 0))
      task.task.op = place[static_cast<std::size_t>(task.task.op)];
    if (addition[i]) {
      const PooledTask& add = pool[*addition[i]];
      ++task.task.op;
      task.operands.back() = add.operands[1];
      task.operands.push_back(add.operands[1]);
      task.task.bytes += static_cast<double>(p.bytes_of(add.operands[1]).count);
      task.after.insert(task.after.end(), add.after.begin(), add.after.end());
    }
    for (std::size_t& d : task.after) d = becomes[d];
    task.after.erase(std::remove(task.after.begin(), task.after.end(), i), task.after.end());
  }
  reorder(pool, order);
  return true;
}

}  // namespace unity
