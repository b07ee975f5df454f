// Traces as JSON files: format "unity-trace", versioned.
#pragma once

#include <string>

#include "core/trace/trace.h"

namespace unity {

// Times in picoseconds; spans as [task, device, stream, start, end], memory as [device, time, bytes], links as
// [link, name, bytes per second, bytes], link_use as [link, time, billionths]. Files of version 1, without links, are
// read, too.
std::string trace_to_json(const Trace& trace);

// InputError names the file, the place, and what was found and expected.
Trace trace_from_json(const std::string& text, const std::string& file);

void save_trace(const Trace& trace, const std::string& path);
Trace load_trace(const std::string& path);

}  // namespace unity
