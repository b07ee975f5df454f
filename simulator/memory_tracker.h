// Bytes in use on each device as tasks start and end.
#pragma once

#include <array>
#include <vector>

#include "core/trace/trace.h"
#include "simulator/task_buffers.h"

namespace unity {

// Bytes of each BufferCategory.
using CategoryBytes = std::array<Bytes, 5>;

// A buffer takes memory from the start of its first user to the end of its last one; persistent buffers throughout.
class MemoryTracker {
 public:
  // `buffers` must outlive it.
  MemoryTracker(const TaskBuffers& buffers, std::size_t tasks, std::size_t devices, bool keep_samples);

  void start(std::size_t task);
  void finish(std::size_t task);
  // Notes the categories and devices whose use has changed since the last call. Only with samples.
  void sample(Picoseconds now);

  const std::vector<Bytes>& peaks() const { return peaks_; }
  // What was in use when a device first reached its peak.
  const std::vector<CategoryBytes>& at_peak() const { return at_peak_; }
  std::vector<MemorySample> take_samples() { return std::move(samples_); }
  std::size_t bytes() const {
    return held_bytes(states_, used_, peaks_, sampled_, by_category_, at_peak_, changed_, samples_);
  }

 private:
  struct BufferState {
    std::uint32_t uses : 31 = 0;  // of tasks that have not ended
    std::uint32_t allocated : 1 = 0;
  };
  void allocate(const BufferEntry& buffer);
  void release(const BufferEntry& buffer);

  const TaskBuffers& buffers_;
  bool keep_samples_;
  std::vector<BufferState> states_;  // by buffer
  std::vector<Bytes> used_, peaks_;
  std::vector<CategoryBytes> by_category_, at_peak_, sampled_;  // of used_, of peaks_, in the last samples
  std::vector<DeviceId> changed_;
  std::vector<MemorySample> samples_;
};

}  // namespace unity
