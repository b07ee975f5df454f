#include "simulator/memory_tracker.h"

#include <algorithm>

namespace unity {
MemoryTracker::MemoryTracker(const Program& program, bool keep_samples)
    : program_(program),
      keep_samples_(keep_samples),
      buffers_(program.buffers.size()),
      used_(static_cast<std::size_t>(program.devices)),
      peaks_(used_.size()),
      sampled_(used_.size()),
      by_category_(used_.size()),
      at_peak_(used_.size()) {
  std::vector<BufferLife> lives = buffer_lives(program);
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    buffers_[b].persistent = lives[b].persistent;
    if (lives[b].persistent) allocate(BufferId(static_cast<std::int64_t>(b)));
  }
  for (const Task& task : program.tasks)
    for_each_buffer(program, task, [&](BufferId b) { ++buffers_[b.index()].uses; });
}

void MemoryTracker::allocate(BufferId id) {
  buffers_[id.index()].allocated = true;
  if (program_.buffer(id).on_host) return;
  DeviceId device = program_.buffer(id).device;
  std::size_t d = device.index();
  used_[d] += program_.bytes_of(id);
  by_category_[d][static_cast<std::size_t>(program_.buffer(id).category)] += program_.bytes_of(id);
  if (used_[d] > peaks_[d]) peaks_[d] = used_[d], at_peak_[d] = by_category_[d];
  if (keep_samples_) changed_.push_back(device);
}

void MemoryTracker::release(BufferId id) {
  if (program_.buffer(id).on_host) return;
  DeviceId device = program_.buffer(id).device;
  used_[device.index()] -= program_.bytes_of(id);
  by_category_[device.index()][static_cast<std::size_t>(program_.buffer(id).category)] -= program_.bytes_of(id);
  if (keep_samples_) changed_.push_back(device);
}

void MemoryTracker::start(const Task& task) {
  for_each_buffer(program_, task, [&](BufferId b) {
    if (!buffers_[b.index()].allocated) allocate(b);
  });
}

void MemoryTracker::finish(const Task& task) {
  for_each_buffer(program_, task, [&](BufferId b) {
    BufferState& state = buffers_[b.index()];
    if (--state.uses == 0 && !state.persistent) release(b);
  });
}

void MemoryTracker::sample(Picoseconds now) {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  for (DeviceId d : changed_) {
    if (used_[d.index()] == sampled_[d.index()]) continue;
    sampled_[d.index()] = used_[d.index()];
    samples_.push_back({d, now, used_[d.index()]});
  }
  changed_.clear();
}

}  // namespace unity
