// A Program's trace as the Perfetto UI opens it, with the names of its tasks and devices and its dependencies as
// arrows.
#pragma once

#include <string>

#include "core/machine/topology.h"
#include "core/plan/program.h"
#include "core/trace/trace.h"

namespace unity::cli {

std::string timeline_of(const Program& program, const Trace& trace, const Topology& topology);

}  // namespace unity::cli
