// Bytes in use on each device as tasks start and end.
#pragma once

#include <array>
#include <vector>

#include "core/plan/program.h"
#include "core/trace/trace.h"

namespace unity {

// Bytes of each BufferCategory.
using CategoryBytes = std::array<Bytes, 5>;

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

// A buffer takes memory from the start of its first user to the end of its last one; persistent buffers throughout.
class MemoryTracker {
 public:
  MemoryTracker(const Program& program, bool keep_samples);

  void start(const Task& task);
  void finish(const Task& task);
  // Notes the devices whose use has changed since the last call. Only with samples.
  void sample(Picoseconds now);

  const std::vector<Bytes>& peaks() const { return peaks_; }
  // What was in use when a device first reached its peak.
  const std::vector<CategoryBytes>& at_peak() const { return at_peak_; }
  std::vector<MemorySample> take_samples() { return std::move(samples_); }

 private:
  struct BufferState {
    std::uint32_t uses = 0;  // of tasks that have not ended
    bool allocated = false;
    bool persistent = false;
  };
  void allocate(BufferId id);
  void release(BufferId id);

  const Program& program_;
  bool keep_samples_;
  std::vector<BufferState> buffers_;
  std::vector<Bytes> used_, peaks_, sampled_;
  std::vector<CategoryBytes> by_category_, at_peak_;  // of used_, of peaks_
  std::vector<DeviceId> changed_;
  std::vector<MemorySample> samples_;
};

}  // namespace unity
