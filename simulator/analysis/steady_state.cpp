#include "simulator/analysis/steady_state.h"

#include <algorithm>

#include "core/trace/compare.h"

namespace unity {

SteadyState steady_state(const Program& program, const Trace& trace) {
  SteadyState steady;
  steady.ends.resize(static_cast<std::size_t>(program.iterations));
  for (const Span& s : trace.spans) {
    Picoseconds& end = steady.ends[program.tasks[s.task.index()].iteration];
    end = std::max(end, s.end);
  }
  for (std::size_t i = 1; i < steady.ends.size(); ++i) steady.ends[i] = std::max(steady.ends[i], steady.ends[i - 1]);
  std::size_t last = steady.ends.size() - (steady.ends.size() > 2 ? 2 : 1);
  steady.to = steady.ends[last];
  if (last > 0) steady.from = steady.ends[last - 1];
  if (trace.iteration > steady.ends.back())
    steady.beside.count = (trace.iteration - steady.ends.back()).count / program.iterations;
  Picoseconds busiest;
  for (const DeviceUse& use : device_use(cut(trace, steady.from, steady.to))) busiest = std::max(busiest, use.compute);
  if (busiest.count > 0) steady.bubble = (steady.to - steady.from).seconds() / busiest.seconds() - 1;
  return steady;
}

Trace cut(const Trace& trace, Picoseconds from, Picoseconds to) {
  Trace result;
  result.source = trace.source;
  result.program = trace.program;
  result.iteration = to - from;
  for (Span s : trace.spans) {
    s.start = std::max(s.start, from) - from, s.end = std::min(s.end, to) - from;
    if (s.start < s.end) result.spans.push_back(s);
  }
  std::sort(result.spans.begin(), result.spans.end(), starts_before);
  return result;
}

}  // namespace unity
