#include "core/plan/accumulation.h"

#include <algorithm>
#include <optional>

namespace unity {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX, kSeveral = UINT32_MAX - 1;

// By buffer, the only task that writes it, and the only one that reads it; and the first two that use it.
struct Uses {
  struct Of {
    std::uint32_t writer = kNone, reader = kNone, first = kNone, second = kNone;
  };
  std::vector<Of> of;
  Of& operator[](BufferId b) { return of[b.index()]; }
  const Of& operator[](BufferId b) const { return of[b.index()]; }
};

Uses find_uses(const Program& p, const std::vector<PooledTask>& pool) {
  Uses uses{std::vector<Uses::Of>(p.buffers.size())};
  for (std::uint32_t i = 0; i < pool.size(); ++i)
    for_each_use(p, pool[i].task, pool[i].operands, [&](BufferId b, bool written) {
      Uses::Of& of = uses[b];
      std::uint32_t& use = written ? of.writer : of.reader;
      use = use == kNone ? i : kSeveral;
      if (of.first == kNone) of.first = i;
      if (of.first != i && of.second == kNone) of.second = i;
    });
  for (const ProgramOutput& out : p.outputs)
    for (BufferId b : out.buffers) uses[b].reader = kSeveral;
  return uses;
}

// Whether the task's operator has a form that adds, and its one result is this.
bool makes(const Program& p, const PooledTask& task, BufferId result) {
  if (task.task.kind != TaskKind::compute || task.operands.back() != result) return false;
  const ProgramOp& op = p.ops[static_cast<std::size_t>(task.task.op)];
  return !op.op->accumulating(op.attributes).empty() && task.operands.size() == op.inputs + 1;
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
    adding.op = &get_operator(adding.op->accumulating(adding.attributes));
    ++adding.inputs;
    adding.shape_only.push_back(false);
    ops.push_back(std::move(adding));
  }
  p.ops = std::move(ops);
  return place;
}

}  // namespace

bool adds_to(const ProgramOp& adding, const ProgramOp& op) {
  return adding.op->accumulates() == op.op && adding.origin == op.origin && adding.name == op.name;
}

bool accumulate_in_place(Program& p, std::vector<PooledTask>& pool) {
  if (std::none_of(pool.begin(), pool.end(), [](const PooledTask& t) { return t.task.kind == TaskKind::accumulate; }))
    return false;
  const Uses uses = find_uses(p, pool);
  // By task: what it takes over, and which of that one's two buffers it adds its result to.
  struct Addition {
    std::size_t task;
    BufferId sum;
  };
  std::vector<std::optional<Addition>> addition(pool.size());
  std::vector<std::size_t> becomes(pool.size());
  std::vector<bool> wanted(p.ops.size(), false);
  bool any = false;
  for (std::size_t a = 0; a < pool.size(); ++a) {
    becomes[a] = a;
    const Task& add = pool[a].task;
    if (add.kind != TaskKind::accumulate) continue;
    BufferId from = pool[a].operands[0], to = pool[a].operands[1];
    const Box& box = p.boxes[static_cast<std::size_t>(add.op)];
    if (p.buffer(from).box != p.buffer(to).box || box != p.buffer(to).box) continue;
    // The summand's maker adds to the sum; or the sum's own maker, which nobody has seen the result of, adds the
    // summand. What the addition waits for, but for its maker, is there before, and holds it up no more than it was.
    auto takes_over = [&](std::size_t maker, BufferId result, BufferId sum) {
      if (maker >= kSeveral || addition[maker] || !makes(p, pool[maker], result)) return false;
      auto too_late = [&](std::size_t d) {
        if (d == maker) return false;
        return becomes[d] >= maker || (pool[d].task.kind == TaskKind::communicate && !waits_for(pool, maker, d));
      };
      if (std::any_of(pool[a].after.begin(), pool[a].after.end(), too_late)) return false;
      addition[maker] = {a, sum}, becomes[a] = maker;
      wanted[static_cast<std::size_t>(pool[maker].task.op)] = any = true;
      return true;
    };
    if (uses[from].reader == a && takes_over(uses[from].writer, from, to)) continue;
    if (uses[to].second == a && takes_over(uses[to].first, to, from)) continue;
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
      const PooledTask& add = pool[addition[i]->task];
      ++task.task.op;
      task.operands.back() = addition[i]->sum;
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
