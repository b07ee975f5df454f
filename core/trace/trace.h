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

// Bytes in use on a device from a time on.
struct MemorySample {
  DeviceId device;
  Picoseconds time;
  Bytes used;
};

struct Trace {
  static constexpr int kVersion = 1;
  std::string source;       // "simulated" or "measured"
  Hash program = 0;         // program_hash of the Program
  Picoseconds iteration;    // from the first start to the last end
  std::vector<Span> spans;  // by starts_before()
  std::vector<MemorySample> memory;
};

}  // namespace unity
