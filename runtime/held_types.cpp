#include "runtime/held_types.h"

namespace unity {
namespace {

// Where values go without being computed with: from tensor to tensor.
template <class F>
void for_each_move(const Program& program, F&& f) {
  auto tensor = [&](BufferId b) { return program.buffer(b).tensor; };
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::copy || t.kind == TaskKind::accumulate)
      f(tensor(program.operands_of(t)[0]), tensor(program.operands_of(t)[1]));
  for (const Communication& c : program.communications)
    for (std::size_t part = 0; part < c.part_count(); ++part)
      for (const Participant& from : c.part(part))
        for (const Participant& to : c.part(part))
          if (from.send.valid() && to.receive.valid()) f(tensor(from.send), tensor(to.receive));
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

}  // namespace unity
