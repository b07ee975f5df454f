#include "runtime/held_types.h"

#include "core/plan/task_pool.h"

namespace unity {
namespace {

// Where values go without being computed with: from tensor to tensor, which are held in one type.
template <class F>
void for_each_move(const Program& program, F&& f) {
  auto tensor = [&](BufferId b) { return program.buffer(b).tensor; };
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::copy || t.kind == TaskKind::accumulate)
      f(tensor(program.operands_of(t)[0]), tensor(program.operands_of(t)[1]));
  // A communication moves one type, of all its parts.
  for (const Communication& c : program.communications) {
    std::int32_t first = -1;
    for (std::size_t part = 0; part < c.part_count(); ++part)
      for (const Participant& p : c.part(part))
        for (BufferId b : {p.send, p.receive}) {
          if (!b.valid()) continue;
          if (first < 0)
            first = tensor(b);
          else
            f(first, tensor(b));
        }
  }
}

}  // namespace

std::vector<DType> held_types(const Program& program, Precision precision) {
  std::vector<DType> types;
  for (const ProgramTensor& t : program.tensors) types.push_back(held_type(t.dtype, precision));
  if (precision != Precision::bf16) return types;
  std::vector<bool> exact(types.size(), false);
  for (std::size_t t = 0; t < types.size(); ++t)
    exact[t] = program.tensors[t].full_precision || program.tensors[t].dims.size() <= 1;
  for (const Buffer& b : program.buffers)
    if (b.category == BufferCategory::weight || b.category == BufferCategory::optimizer_state)
      exact[static_cast<std::size_t>(b.tensor)] = true;
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::update && t.op < 0)
      exact[static_cast<std::size_t>(program.buffer(program.operands_of(t)[1]).tensor)] = true;
  // What is moved keeps its type, both ways: a weight that is gathered, a gradient that is scattered.
  for (bool changed = true; changed;) {
    changed = false;
    for_each_move(program, [&](std::int32_t a, std::int32_t b) {
      auto from = static_cast<std::size_t>(a), to = static_cast<std::size_t>(b);
      if (exact[from] == exact[to]) return;
      exact[from] = exact[to] = changed = true;
    });
  }
  for (std::size_t t = 0; t < types.size(); ++t)
    if (types[t] == DType::f32 && !exact[t]) types[t] = DType::bf16;
  return types;
}

RoundedWeights rounded_weights(const Program& program, Precision precision, const std::vector<DType>& types) {
  RoundedWeights rounded{std::vector<bool>(program.buffers.size(), false), {}};
  rounded.renewed.resize(program.tasks.size());
  if (precision != Precision::bf16) return rounded;
  // Versions that are only copied (core/plan/delayed_weights.h) need none.
  std::vector<bool> computed(program.buffers.size(), false), copied(program.buffers.size(), false);
  for (const Task& t : program.tasks)
    for_each_use(program, t, program.operands_of(t), [&](BufferId b, bool written) {
      if (!written && t.kind == TaskKind::compute) computed[b.index()] = true;
      if (!written && t.kind == TaskKind::copy) copied[b.index()] = true;
    });
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    auto tensor = static_cast<std::size_t>(buffer.tensor);
    rounded.has_copy[b] = buffer.category == BufferCategory::weight && types[tensor] == DType::f32 &&
                          program.tensors[tensor].dims.size() > 1 && (computed[b] || !copied[b]);
  }
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const Task& task = program.tasks[t];
    if (task.kind == TaskKind::update) continue;
    for_each_use(program, task, program.operands_of(task), [&](BufferId b, bool written) {
      if (written && rounded.has_copy[b.index()]) rounded.renewed[t].push_back(b);
    });
  }
  return rounded;
}

}  // namespace unity
