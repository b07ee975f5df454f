// What happened when, in one iteration: predicted by the simulator or measured by the runtime, with the same task ids.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/base/units.h"

namespace unity {

// One task on one device; a communication has a span on each participant.
struct Span {
  TaskId task;
  DeviceId device;
  std::uint8_t stream = 0;  // Stream of program.h
  Picoseconds start, end;
};

// The order of spans in a Trace.
inline bool starts_before(const Span& a, const Span& b) {
  return std::tie(a.start, a.task, a.device) < std::tie(b.start, b.task, b.device);
}

// Bytes of a category in use on a device from a time on; 0 before the first sample. Each differs from the one before.
struct MemorySample {
  static constexpr std::uint8_t kAll = 255;  // in files of versions that had no categories: of all together

  DeviceId device;
  std::uint8_t category = kAll;  // BufferCategory of program.h
  Picoseconds time;
  Bytes used;
};

// What a link carried in the iteration.
struct LinkUsage {
  LinkId link;       // of the topology
  std::string name;  // "node0.nic -> fabric"
  BytesPerSecond bandwidth;
  Bytes bytes;
};

// Use of a link from a time on: its rate as a fraction of its bandwidth, in whole billionths, so that rounding in sums
// of rates does not show.
struct LinkSample {
  LinkId link;
  Picoseconds time;
  std::int32_t use = 0;

  static constexpr std::int32_t kFull = 1'000'000'000;
  double fraction() const { return static_cast<double>(use) / kFull; }
};

struct Trace {
  static constexpr int kVersion = 3;  // 1 had no links, 2 no categories of memory
  std::string source;                 // "simulated" or "measured"
  Hash program = 0;                   // program_hash of the Program
  Picoseconds iteration;              // from the first start to the last end
  std::vector<Span> spans;            // by starts_before()
  std::vector<MemorySample> memory;   // by time, device, category
  std::vector<LinkUsage> links;       // by link; those that carried something, where they were recorded
  std::vector<LinkSample> link_use;   // by time, then link; 0 before a link's first sample
};

}  // namespace unity
