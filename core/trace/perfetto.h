// Export to the Chrome trace event format, which ui.perfetto.dev opens: a process for each device, a thread for each
// stream, a complete event ("X") for each span, a counter ("C") for memory with a series for each category,
// which viewers stack, and, in a process of their own, for the use of each link, a flow ("s" to "f") for each arrow.
// Form: "Trace Event Format" (Google, 2016). Times are microseconds with six decimals, so no picosecond is lost.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "core/trace/trace.h"

namespace unity {

// By task id (names, categories) and by device number (devices); where a list is too short, the number is shown.
struct TraceLabels {
  std::span<const std::string> names;
  std::span<const std::string> categories;
  std::span<const std::string> devices;
  // From the end of the first to the start of the second: of their spans on a device that both have, else the first.
  std::span<const std::pair<TaskId, TaskId>> arrows;
};

std::string trace_to_perfetto(const Trace& trace, const TraceLabels& labels);

// Several traces of one Program side by side, for example the predicted and the measured one.
std::string traces_to_perfetto(std::span<const Trace* const> traces, const TraceLabels& labels);

}  // namespace unity
