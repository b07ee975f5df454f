// Copies between devices and hosts: flows over the links between them.
#include <catch2/catch.hpp>

#include "core/machine/profile.h"
#include "core/plan/task_key.h"
#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

double microseconds(Picoseconds t) { return static_cast<double>(t.count) * 1e-6; }

VertexId add_host(MachineBuilder& m, const std::string& name = "host") {
  VertexId v = m.add_switch(name);
  m.topology.vertices[v.index()].host = true;
  return v;
}

// Of f32, on the copy stream.
TaskId copy(ProgramBuilder& b, int device, std::int64_t elements, bool to_host) {
  BufferId here = b.buffer(device, elements), there = b.buffer(device, elements);
  b.program.buffers[there.index()].on_host = true;
  TaskId id = b.compute(device, 0, {}, to_host ? std::vector{here, there} : std::vector{there, here}, Stream::copy);
  Task& task = b.program.tasks[id.index()];
  task.kind = TaskKind::copy;
  task.op = static_cast<std::int32_t>(b.program.boxes.size());
  task.bytes = static_cast<double>(4 * elements);
  b.program.boxes.push_back(whole_box({elements}));
  return id;
}

// Two devices behind a switch of 10 GB/s, which is linked to their host with 1 GB/s.
Topology behind_switch() {
  MachineBuilder m(2);
  VertexId pcie = m.add_switch("pcie"), host = add_host(m);
  m.link(m.device(0), pcie, 10), m.link(m.device(1), pcie, 10), m.link(pcie, host, 1);
  return m.finish();
}

double time_of(const ProgramBuilder& b, const Topology& topology, const SimulationOptions& options = {}) {
  return microseconds(simulate(b.program, topology, options).iteration);
}

}  // namespace

TEST_CASE("a copy to the host takes the latency of its links, then its bytes at their rate") {
  MachineBuilder m(1);
  m.link(m.device(0), add_host(m), 2, 3);
  Topology machine = m.finish();
  ProgramBuilder b(1);
  copy(b, 0, 1000, true);  // 3 us + 4 kB / 2 GB/s
  CHECK(time_of(b, machine) == 5);
  CHECK(time_of(b, machine, {.steps = true}) == 5);
}

TEST_CASE("two devices that copy to their host share the link to it, one each way does not") {
  ProgramBuilder both(2), each(2);
  copy(both, 0, 1000, true), copy(both, 1, 1000, true);
  copy(each, 0, 1000, true), copy(each, 1, 1000, false);
  CHECK(time_of(both, behind_switch()) == 8);  // 4 kB at 0.5 GB/s
  CHECK(time_of(each, behind_switch()) == 4);
}

TEST_CASE("a copy shares its link with a collective in flight") {
  MachineBuilder m(2);
  VertexId host = add_host(m);
  m.link(m.device(0), host, 1), m.link(m.device(1), host, 1);
  ProgramBuilder b(2);
  b.communicate(CollectiveKind::all_reduce, {0, 1}, 1000);  // 4 kB from each device to the other, by way of the host
  TaskId out = copy(b, 0, 500, true);
  SimulationResult r = simulate(b.program, m.finish());
  // At 0.5 GB/s each until the copy's 2 kB are there, at 4 us; the last 2 kB of the all-reduce at 1 GB/s.
  CHECK(microseconds(r.iteration) == 6);
  for (const Span& s : r.trace.spans)
    if (s.task == out) CHECK(microseconds(s.end) == 4);
}

TEST_CASE("without a host in the topology a copy takes the device's host bandwidth, else that of its memory") {
  Topology machine = all_pairs(2, 1);
  ProgramBuilder b(2);
  copy(b, 0, 1'000'000, true), copy(b, 1, 1'000'000, false);
  CHECK(time_of(b, machine) == 4);  // 4 MB at 1 TB/s
  machine.specs[0].host_bandwidth = {2e9};
  CHECK(time_of(b, machine) == 2000);
}

TEST_CASE("a copy takes what its device's profile has for copies to or from the host, by its size or as a curve") {
  Topology machine = all_pairs(2, 1);
  machine.specs[0].host_bandwidth = {2e9};
  ProgramBuilder out(2), in(2);
  const TaskId there = copy(out, 0, 1'000'000, true);
  copy(in, 0, 1'000'000, false);
  ProfileSection s;
  s.curves["copy"] = {{1e6, 1e-6, 1e-6}, {1e9, 1e-3, 1e-3}};  // within the device: of no account
  s.curves["copy from host"] = {{1e6, 1e-4, 1e-4}, {1e9, 1e-1, 1e-1}};
  s.tasks[task_key(out.program, out.program.tasks[there.index()])] = {3e-4, 3e-4};
  CHECK(task_key(out.program, out.program.tasks[there.index()]).starts_with("copy to host(f32[1000000]"));
  DeviceProfile profile;
  profile.cache = {1'000'000};
  profile.sections[1] = s;
  Topology measured = machine;
  use_profile(measured, profile);
  CHECK(time_of(out, measured) == 300);
  CHECK(time_of(in, measured) == Approx(400));  // 4 MB
  profile.sections[1].tasks.clear();
  measured = machine;
  use_profile(measured, profile);
  CHECK(time_of(out, measured) == 2000);  // not measured
}

TEST_CASE("the bytes of copies show on the links that they cross") {
  ProgramBuilder b(2);
  copy(b, 0, 1000, true), copy(b, 1, 1000, true);
  SimulationResult r = simulate(b.program, behind_switch(), {.links = true});
  REQUIRE(r.trace.links.size() == 3);
  for (const LinkUsage& l : r.trace.links) CHECK(l.bytes.count == (l.name == "pcie -> host" ? 8000 : 4000));
}
