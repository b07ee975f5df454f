#include "core/plan/buffer_order.h"

#include <algorithm>

namespace unity {

BufferOrder::BufferOrder(const Program& program, DeviceId device) : uses_(program.buffers.size()) {
  std::vector<Clock> ended(program.tasks.size());  // what has ended when the task has, on all its devices
  std::vector<std::array<Clock, kLanes>> lanes(static_cast<std::size_t>(program.devices));
  std::array<std::int32_t, kLanes> positions{};
  auto join = [](Clock& to, const Clock& from) {
    for (std::size_t l = 0; l < kLanes; ++l) to[l] = std::max(to[l], from[l]);
  };
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    auto lane = static_cast<std::size_t>(task.stream);
    Clock before{};
    for (TaskId d : program.dependencies_of(task)) join(before, ended[d.index()]);
    auto part = [&](DeviceId on, auto&& touch_operands) {
      Clock& clock = lanes[on.index()][lane];
      join(clock, before);
      if (on == device) {
        std::int32_t position = positions[lane]++;
        touch_operands(position, clock);
        clock[lane] = position + 1;
      }
      join(ended[i], clock);
    };
    if (task.kind == TaskKind::communicate) {
      const Communication& c = program.communications[static_cast<std::size_t>(task.op)];
      for (std::size_t a = 0; a < c.participants.size(); ++a)
        part(c.participants[a].device, [&](std::int32_t position, const Clock& known) {
          for (std::size_t k = 0; k < c.part_count(); ++k) {
            const Participant& p = c.part(k)[a];
            if (p.send.valid()) touch(p.send, lane, position, known, true);
            if (p.receive.valid()) touch(p.receive, lane, position, known, false);
          }
        });
      continue;
    }
    part(task.device, [&](std::int32_t position, const Clock& known) {
      auto operands = program.operands_of(task);
      const ProgramOp* op = task.kind == TaskKind::compute ? &program.ops[static_cast<std::size_t>(task.op)] : nullptr;
      for (std::size_t k = 0; k < operands.size(); ++k) {
        bool input = op ? k < op->inputs : k == 0 && task.kind != TaskKind::zero;
        if (!operands[k].valid() || (op && input && op->shape_only[k])) continue;
        bool reads = input || task.kind == TaskKind::accumulate || task.kind == TaskKind::update;
        touch(operands[k], lane, position, known, reads);
      }
    });
  }
}

void BufferOrder::touch(BufferId buffer, std::size_t lane, std::int32_t position, const Clock& known, bool reads) {
  Use& use = uses_[buffer.index()];
  if (!used(buffer)) use.read_first = reads;
  if (use.first[lane] < 0) {
    use.first[lane] = position;
    use.known[lane] = known;
    use.known[lane][lane] = position;
  }
  use.last[lane] = position;
}

bool BufferOrder::used(BufferId buffer) const {
  const Use& use = uses_[buffer.index()];
  return std::any_of(use.first.begin(), use.first.end(), [](std::int32_t position) { return position >= 0; });
}

bool BufferOrder::precedes(BufferId a, BufferId b) const {
  const Use &before = uses_[a.index()], &after = uses_[b.index()];
  for (std::size_t s = 0; s < kLanes; ++s)
    for (std::size_t l = 0; l < kLanes && after.first[s] >= 0; ++l)
      if (before.last[l] >= after.known[s][l]) return false;
  return true;
}

}  // namespace unity
