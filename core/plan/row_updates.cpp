#include "core/plan/row_updates.h"

namespace unity {
namespace {

// By buffer: how many tasks use it, where outputs of the program count as used once more.
std::vector<int> use_counts(const Program& p) {
  std::vector<int> counts(p.buffers.size(), 0);
  auto use = [&](BufferId b) {
    if (b.valid()) ++counts[b.index()];
  };
  for (const Task& t : p.tasks) {
    for (BufferId b : p.operands_of(t)) use(b);
    if (t.kind != TaskKind::communicate) continue;
    for (const Participant& q : p.communications[static_cast<std::size_t>(t.op)].participants)
      use(q.send), use(q.receive);
  }
  for (const ProgramOutput& out : p.outputs)
    for (BufferId b : out.buffers) use(b);
  return counts;
}

const ProgramOp& op_of(const Program& p, const Task& t) { return p.ops[static_cast<std::size_t>(t.op)]; }

// Tasks that form the gradient of a table, by the gradient's buffer: invalid for other buffers.
std::vector<TaskId> table_gradients(const Program& p) {
  std::vector<TaskId> makers(p.buffers.size());
  for (std::size_t t = 0; t < p.tasks.size(); ++t) {
    if (p.tasks[t].kind != TaskKind::compute) continue;
    auto operands = p.operands_of(p.tasks[t]);
    const ProgramOp& op = op_of(p, p.tasks[t]);
    if (op.op->row_factor(op.attributes, p.tensor_of(operands[0]).dims))
      makers[operands.back().index()] = TaskId(static_cast<std::int64_t>(t));
  }
  return makers;
}

}  // namespace

double row_update_factor(const Program& program, const Task& task) {
  const ProgramOp& op = op_of(program, task);
  return op.op->row_factor(op.attributes, program.tensor_of(program.operands_of(task)[1]).dims).value();
}

bool updates_by_rows(const OptimizerSpec& optimizer) {
  return optimizer.name == "sgd" && optimizer.momentum == 0 && optimizer.weight_decay == 0;
}

void use_row_updates(Program& p) {
  if (!updates_by_rows(p.optimizer)) return;
  std::vector<int> uses = use_counts(p);
  std::vector<TaskId> makers = table_gradients(p), maker_of(p.tasks.size());
  std::vector<bool> removed(p.tasks.size(), false);
  bool any = false;
  for (std::size_t t = 0; t < p.tasks.size(); ++t) {
    if (p.tasks[t].kind != TaskKind::update) continue;
    auto operands = p.operands_of(p.tasks[t]);
    TaskId maker = makers[operands[1].index()];
    bool only_here = maker.valid() && uses[operands[1].index()] == 2;
    if (!only_here || p.buffer(operands[1]).box != p.buffer(operands[0]).box) continue;
    maker_of[t] = maker;
    removed[maker.index()] = any = true;
  }
  if (!any) return;

  std::vector<Task> tasks;
  std::vector<BufferId> operands;
  std::vector<TaskId> dependencies, renamed(p.tasks.size());
  for (std::size_t i = 0; i < p.tasks.size(); ++i) {
    if (removed[i]) continue;
    Task task = p.tasks[i];
    auto operands_begin = static_cast<std::uint32_t>(operands.size());
    auto dependencies_begin = static_cast<std::uint32_t>(dependencies.size());
    // Whoever waited for a removed task waits for what that one waited for.
    for (TaskId d : p.dependencies_of(task)) {
      if (!removed[d.index()]) dependencies.push_back(renamed[d.index()]);
      for (TaskId e : p.dependencies_of(p.tasks[d.index()]))
        if (removed[d.index()]) dependencies.push_back(renamed[e.index()]);
    }
    if (maker_of[i].valid()) {
      const Task& maker = p.tasks[maker_of[i].index()];
      BufferId weight = p.operands_of(task)[0], ids = p.operands_of(maker)[0], dy = p.operands_of(maker)[1];
      operands.insert(operands.end(), {weight, ids, dy});
      auto looked_up = static_cast<double>(p.buffer(ids).box.elements() * p.buffer(weight).box.extent[1]);
      task.op = maker.op;
      task.flops = 2 * looked_up;
      task.bytes = static_cast<double>(p.bytes_of(ids).count + p.bytes_of(dy).count) +
                   2 * looked_up * static_cast<double>(size_of(p.tensor_of(weight).dtype));
    } else {
      operands.insert(operands.end(), p.operands_of(task).begin(), p.operands_of(task).end());
    }
    task.operands_begin = operands_begin, task.operands_end = static_cast<std::uint32_t>(operands.size());
    task.dependencies_begin = dependencies_begin;
    task.dependencies_end = static_cast<std::uint32_t>(dependencies.size());
    renamed[i] = TaskId(static_cast<std::int64_t>(tasks.size()));
    tasks.push_back(task);
  }
  p.tasks = std::move(tasks), p.operands = std::move(operands), p.dependencies = std::move(dependencies);
}

}  // namespace unity
