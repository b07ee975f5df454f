// Which buffers the tasks of a Program use, and what they take: in flat tables, since a simulation asks for each
// several times, and a Buffer with its box and tensor is spread over memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/program.h"
#include "simulator/engine/held_bytes.h"

namespace unity {

// The buffers a task reads or writes, with repetition.
template <class Use>
void for_each_buffer(const Program& program, const Task& task, Use use) {
  if (task.kind == TaskKind::communicate) {
    const Communication& c = program.communications[static_cast<std::size_t>(task.op)];
    for (std::size_t part = 0; part < c.part_count(); ++part)
      for (const Participant& p : c.part(part)) {
        if (p.send.valid()) use(p.send);
        if (p.receive.valid()) use(p.receive);
      }
    return;
  }
  auto operands = program.operands_of(task);
  const ProgramOp* op = task.kind == TaskKind::compute ? &program.ops[static_cast<std::size_t>(task.op)] : nullptr;
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (operands[k].valid() && !(op && k < op->inputs && op->shape_only[k])) use(operands[k]);
}

struct BufferEntry {
  Bytes bytes;
  std::uint32_t device = 0;
  BufferCategory category = BufferCategory::activation;
  bool on_host = false;
  bool persistent = false;  // lives throughout: persistent_buffers(), of several iterations weights and states alone

  // Takes memory of its device only while tasks use it.
  bool transient() const { return !persistent && !on_host; }
};

class TaskBuffers {
 public:
  TaskBuffers() = default;
  explicit TaskBuffers(const Program& program);

  const std::vector<BufferEntry>& entries() const { return entries_; }  // by buffer
  // The transient ones of a task, with repetition.
  std::span<const std::uint32_t> transient(std::size_t task) const {
    return {transient_.data() + begin_[task], transient_.data() + begin_[task + 1]};
  }
  std::size_t bytes() const { return held_bytes(entries_, begin_, transient_); }

 private:
  std::vector<BufferEntry> entries_;
  std::vector<std::uint32_t> begin_, transient_;  // by task, and the end
};

}  // namespace unity
