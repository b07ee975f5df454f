// Measuring a Program, to lay the measurement over its prediction (core/trace/compare.h).
#pragma once

#include <string>
#include <vector>

#include "runtime/train.h"

namespace unity {

struct MeasureOptions {
  ExecutorOptions executor;
  std::map<std::string, std::int64_t> index_bounds;  // by input
  int warm_up = 3;
  int steps = 21;
  double quantile = 0.5;  // which of the steps counts, by iteration time: 0 the fastest, 0.5 the median
};

struct Measurement {
  Picoseconds iteration;
  Trace trace;
};

// Synthetic batches, weights that stay as they are. The iteration and the trace are that quantile of all by time; where
// tracing takes time, steps that are not traced say what an iteration takes, and the trace only what its tasks do.
// InputError where several processes are to measure otherwise.
Measurement measure(const Program& program, const MeasureOptions& options);

}  // namespace unity
