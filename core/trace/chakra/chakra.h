// Export to Chakra execution traces (Sridharan et al., Chakra: Advancing Performance Benchmarking and Co-design using
// Standardized Execution Traces, 2023; MLCommons, schema 0.0.4), which network simulators such as ASTRA-sim replay: for
// each device the graph of its tasks.
//
// A node is a task on a device; a communication has one in the file of each participant. Ids are those of the Program's
// tasks, so the same communication has the same id everywhere. What a task waits for on its device are its data
// dependencies, the task before it on its stream is its control dependency. A dependency on a task that only another
// device runs is not written: communications, which both sides run, carry those.
//
//   task                     node               attributes
//   send                     send at the first, receive at the second participant
//                                               comm_src, comm_dst, comm_tag (the task), comm_size (bytes)
//   other communications     collective         comm_type, comm_size (bytes that a participant holds before: the whole
//                                               piece, of several tensors together where one call moves them; of
//                                               all_gather its part, of all_to_all what it sends, the largest of
//                                               them), pg_name, root_rank (broadcast and reduce)
//   all others               compute            num_ops (FLOPs), tensor_size (bytes of memory traffic)
//
// All have is_cpu_op (false) and duration_picoseconds, since the format's own times are whole microseconds
// (a duration that is not 0 is at least 1).
#pragma once

#include <string>
#include <vector>

#include "core/plan/program.h"
#include "core/trace/trace.h"

namespace unity {

// By device the bytes of its file, PREFIX.N.et. `times` is a trace of the program; InputError when it is not.
std::vector<std::string> chakra_traces(const Program& program, const Trace& times);

// The groups of devices that pg_name names, as ASTRA-sim reads them: {"1": [0, 1, 2, 3], ...}. All devices together are
// group 0, which every reader knows and the file leaves out; the others are numbered in the order of their first
// communications.
std::string chakra_groups(const Program& program);

}  // namespace unity
