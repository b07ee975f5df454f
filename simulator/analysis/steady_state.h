// How long a step takes while steps follow each other: read off the trace of a Program of several iterations
// (core/plan/repeat.h).
//
// With e(i) the time at which all tasks of iterations 0 .. i have ended, the steady iteration is e(k-2) - e(k-3) of k
// iterations: the first fills the pipeline, and behind the last no step follows. Of two it is e(1) - e(0), of one e(0).
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "core/trace/trace.h"

namespace unity {

struct SteadyState {
  std::vector<Picoseconds> ends;  // e(i), by iteration
  Picoseconds from, to;           // the steady iteration
  // What the busiest device's compute stream is idle within it, of what it works: (p - 1) / m in a pipeline of p equal
  // stages and m micro-batches with flush.
  double bubble = 0;

  Picoseconds beside;  // its share of what the Program takes beside its tasks: of its launch

  Picoseconds iteration() const { return to - from + beside; }
};

SteadyState steady_state(const Program& program, const Trace& trace);

// The spans that lie between two times or reach into them, cut there, with times from the first.
Trace cut(const Trace& trace, Picoseconds from, Picoseconds to);

}  // namespace unity
