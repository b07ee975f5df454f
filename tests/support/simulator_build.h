// Small machines and Programs built by hand, for the simulator's tests.
#pragma once

#include <string>
#include <vector>

#include "core/machine/topology.h"
#include "core/plan/program.h"

namespace unity::test {

// Devices of 1 TFLOPS, 1 TB/s and 1 GB without overheads, so that a task of 1e6 FLOPs takes one microsecond.
struct MachineBuilder {
  Topology topology;

  explicit MachineBuilder(int devices);
  // A switch; its vertex number.
  VertexId add_switch(const std::string& name);
  VertexId device(int i) const { return topology.devices[static_cast<std::size_t>(i)].vertex; }
  void link(VertexId a, VertexId b, double gigabytes_per_second, double microseconds = 0);
  Topology finish();
};
// Every pair linked.
Topology all_pairs(int devices, double gigabytes_per_second, double microseconds = 0);
// Device i is linked with device i+1, and the last with the first.
Topology ring_machine(int devices, double gigabytes_per_second, double microseconds = 0);

struct ProgramBuilder {
  Program program;

  explicit ProgramBuilder(int devices);
  BufferId buffer(int device, std::int64_t elements, BufferCategory category = BufferCategory::activation);
  // A task of the given time alone (see MachineBuilder), on the given stream.
  TaskId compute(int device, double microseconds, std::vector<TaskId> after = {}, std::vector<BufferId> operands = {},
                 Stream stream = Stream::compute);
  // Of `elements` f32 in all; all_gather and reduce_scatter: an equal piece for each participant.
  TaskId communicate(CollectiveKind kind, std::vector<int> devices, std::int64_t elements,
                     std::vector<TaskId> after = {});
  // Equal exchanges between all pairs of different devices.
  TaskId all_to_all(std::vector<int> devices, std::int64_t elements_per_pair, std::vector<TaskId> after = {});

 private:
  TaskId add(Task task, const std::vector<TaskId>& after, const std::vector<BufferId>& operands);
};

}  // namespace unity::test
