#include "simulator/task_buffers.h"

namespace unity {
TaskBuffers::TaskBuffers(const Program& program) {
  std::vector<bool> persistent = persistent_buffers(program);
  constexpr std::size_t kAhead = 16;
  entries_.reserve(program.buffers.size());
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    // The extents lie somewhere else each: fetched ahead, they do not hold up the loop.
    if (b + kAhead < program.buffers.size()) __builtin_prefetch(program.buffers[b + kAhead].box.extent.data());
    const Buffer& buffer = program.buffers[b];
    // Of several iterations, each brings its inputs and hands out its outputs.
    bool lasts = persistent[b] && (program.iterations == 1 || buffer.category == BufferCategory::weight ||
                                   buffer.category == BufferCategory::optimizer_state);
    entries_.push_back({program.bytes_of(BufferId(static_cast<std::int64_t>(b))),
                        static_cast<std::uint32_t>(buffer.device.value), buffer.category, buffer.on_host, lasts});
  }
  begin_.reserve(program.tasks.size() + 1);
  transient_.reserve(program.operands.size());
  for (const Task& task : program.tasks) {
    begin_.push_back(static_cast<std::uint32_t>(transient_.size()));
    for_each_buffer(program, task, [&](BufferId b) {
      if (entries_[b.index()].transient()) transient_.push_back(static_cast<std::uint32_t>(b.value));
    });
  }
  begin_.push_back(static_cast<std::uint32_t>(transient_.size()));
}

}  // namespace unity
