#include "simulator/memory_tracker.h"

#include <algorithm>

namespace unity {

MemoryTracker::MemoryTracker(const TaskBuffers& buffers, std::size_t tasks, std::size_t devices, bool keep_samples)
    : buffers_(buffers),
      keep_samples_(keep_samples),
      states_(buffers.entries().size()),
      used_(devices),
      peaks_(devices),
      by_category_(devices),
      at_peak_(devices),
      sampled_(devices) {
  for (const BufferEntry& buffer : buffers.entries())
    if (buffer.persistent && !buffer.on_host) allocate(buffer);
  for (std::size_t t = 0; t < tasks; ++t)
    for (std::uint32_t b : buffers.transient(t)) ++states_[b].uses;
}

void MemoryTracker::allocate(const BufferEntry& buffer) {
  std::size_t d = buffer.device;
  used_[d] += buffer.bytes;
  by_category_[d][static_cast<std::size_t>(buffer.category)] += buffer.bytes;
  if (used_[d] > peaks_[d]) peaks_[d] = used_[d], at_peak_[d] = by_category_[d];
  if (keep_samples_) changed_.push_back(DeviceId(static_cast<std::int64_t>(d)));
}

void MemoryTracker::release(const BufferEntry& buffer) {
  std::size_t d = buffer.device;
  used_[d] -= buffer.bytes;
  by_category_[d][static_cast<std::size_t>(buffer.category)] -= buffer.bytes;
  if (keep_samples_) changed_.push_back(DeviceId(static_cast<std::int64_t>(d)));
}

void MemoryTracker::start(std::size_t task) {
  for (std::uint32_t b : buffers_.transient(task)) {
    if (states_[b].allocated) continue;
    states_[b].allocated = 1;
    allocate(buffers_.entries()[b]);
  }
}

void MemoryTracker::finish(std::size_t task) {
  for (std::uint32_t b : buffers_.transient(task))
    if (--states_[b].uses == 0) release(buffers_.entries()[b]);
}

void MemoryTracker::sample(Picoseconds now) {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  for (DeviceId d : changed_)
    for (std::uint8_t c = 0; c < by_category_[d.index()].size(); ++c) {
      Bytes used = by_category_[d.index()][c], &sampled = sampled_[d.index()][c];
      if (used == sampled) continue;
      sampled = used;
      samples_.push_back({d, c, now, used});
    }
  changed_.clear();
}

}  // namespace unity
